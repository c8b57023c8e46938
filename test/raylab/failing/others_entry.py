"""What other tools and launchers print before a job ends."""

import os
import sys

TOOLS = {
    # one rank says why, the launcher draws a box
    "mpi": (1, """[node-2:41210] lattice lat-0412: plaquette checksum is 0x3fa1, header says 0x77c0
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD
with errorcode 1.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------
"""),
    "apt": (100, """Reading package lists...
Building dependency tree...
Reading state information...
E: Unable to locate package libsndfile9
"""),
    "absl": (1, """FATAL Flags parsing error:
  Unknown command line flag 'batchsize'. Did you mean: batch_size ?
Pass --helpshort or --helpfull to see help on flags.
"""),
}  # fmt: skip


def nulls():
    print("reading 31 days")
    print("features: column age_days has 14 % nulls, 5 % are allowed")
    sys.exit(1)


def mesh():
    sys.stderr.write("mesher: delaunay.c:412: insert_point: Assertion `tri->n[2] != NULL' failed.\n")
    sys.stderr.flush()
    os.abort()


if __name__ == "__main__":
    if sys.argv[1] in TOOLS:
        code, text = TOOLS[sys.argv[1]]
        sys.stderr.write(text)
        sys.exit(code)
    globals()[sys.argv[1]]()
