"""A library in C, which crashes on one clip."""

import ctypes
import faulthandler


def decode(clip):
    faulthandler.enable()
    if clip == 5:
        ctypes.string_at(0)
    return clip
