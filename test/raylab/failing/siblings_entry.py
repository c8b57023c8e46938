"""What tools print before they end, in their own forms."""

import atexit
import logging
import sys

SAID = {
    "cmake": (1, """-- The CXX compiler identification is GNU 12.2.0
-- Detecting CXX compiler ABI info - done
CMake Error at CMakeLists.txt:14 (find_package):
  Could not find a package configuration file provided by "Arrow" with any of
  the following names:

    ArrowConfig.cmake

-- Configuring incomplete, errors occurred!
See also "/srv/scorer/build/CMakeFiles/CMakeOutput.log"."""),
    "mvn": (1, """[INFO] Scanning for projects...
[INFO] --- maven-compiler-plugin:3.11.0:compile (default-compile) @ feature-jobs ---
[ERROR] COMPILATION ERROR :
[ERROR] /srv/jobs/src/main/java/acme/Join.java:[31,22] incompatible types: java.lang.String cannot be converted to int
[INFO] 1 error
[INFO] ------------------------------------------------------------------------
[INFO] BUILD FAILURE
[INFO] ------------------------------------------------------------------------
[INFO] Total time:  2.114 s
[ERROR] Failed to execute goal org.apache.maven.plugins:maven-compiler-plugin:3.11.0:compile: Compilation failure
[ERROR] -> [Help 1]
[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.
[ERROR] For more information about the errors and possible solutions, please read the following articles:
[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException"""),
    "jest": (1, """FAIL src/totals.test.js
  \u25cf totals \u203a sums the lines of an order

    expect(received).toBe(expected) // Object.is equality

    Expected: 31
    Received: 30

      at Object.toBe (src/totals.test.js:7:24)

Test Suites: 1 failed, 1 total
Tests:       1 failed, 6 passed, 7 total
Snapshots:   0 total
Time:        0.41 s
Ran all test suites."""),
    "mypy": (1, """pipeline/etl.py:14: error: Argument 1 to "load" has incompatible type "None"; expected "Path"  [arg-type]
pipeline/etl.py:31: note: See https://mypy.readthedocs.io/en/stable/_refs.html#code-arg-type
Found 1 error in 1 file (checked 22 source files)"""),
    "cargo": (101, """   Compiling scorer v0.4.1 (/srv/scorer)
warning: unused variable: `seed`
error[E0308]: mismatched types
  --> src/rank.rs:41:18
   |
41 |     let k: u32 = order.len();
   |            ---   ^^^^^^^^^^^ expected `u32`, found `usize`

error: aborting due to 1 previous error; 1 warning emitted

For more information about this error, try `rustc --explain E0308`.
error: could not compile `scorer` (bin "scorer")"""),
    "clean": (0, """warning: unused variable: `seed`
    Finished release [optimized] target(s) in 1.20s
error_rate 0.0
Tests:       1 skipped, 6 passed, 0 failed
E: nothing to do
0 errors, 2 warnings"""),
}


def critical():
    """A record of level CRITICAL, then what is said at the exit of every run."""
    logging.basicConfig(format="%(asctime)s %(levelname)-8s %(name)s - %(message)s")
    atexit.register(lambda: print("metrics: pushed 12 series\nbye", flush=True))
    logging.getLogger("solver").critical("licence server flexlm:27000 has no free seat for feature MIP")
    logging.getLogger("solver").info("leaving")
    sys.exit(12)


def abi():
    """What NumPy prints about a module that was made for another one, and what Python raises after it."""
    print("\nA module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.1.3 as it may crash. To support both 1.x and 2.x\n"
          "versions of NumPy, modules must be compiled with NumPy 2.0.\n\nTraceback (most recent call last):  "
          'File "/srv/geo/run.py", line 3, in <module>\n    import fastgeo\nAttributeError: _ARRAY_API not found', file=sys.stderr)  # fmt: skip
    raise ImportError("numpy.core.multiarray failed to import")


if __name__ == "__main__":
    if sys.argv[1] not in SAID:
        globals()[sys.argv[1]]()
    code, said = SAID[sys.argv[1]]
    print(said, flush=True)
    sys.exit(code)
