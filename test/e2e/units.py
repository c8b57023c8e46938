"""Units of systemd as the packages install them, where no systemd reads them."""

import re


def unit(text, instance=""):
    """(variables, files of variables, folders below /var that are made for it, working folder, command) of a unit's file."""
    text = text.replace("%i", instance).replace("%S", "/var/lib").replace("%C", "/var/cache")

    def values(key):
        return re.findall(rf"^{key}=(.*)$", text, re.M)

    variables = dict(word.split("=", 1) for line in values("Environment") for word in line.split())
    folders = [f"/var/lib/{name}" for name in values("StateDirectory")] + [f"/var/cache/{name}" for name in values("CacheDirectory")]
    (cwd,), (command,) = values("WorkingDirectory"), values("ExecStart")
    return variables, values("EnvironmentFile"), folders, cwd, command.split()


def variables(text):
    """The variables of an EnvironmentFile."""
    return dict(re.findall(r"^([A-Za-z_]+)='?(.+?)'?$", text, re.M))
