package output

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestLastWordsOfTools: what tools print as they end, in the forms that people report, with lists, trees, boxes and
// advice below or around what counts.
func TestLastWordsOfTools(t *testing.T) {
	const noHost = "failed to lookup address information: Name or service not known"
	for name, c := range map[string]struct{ log, want string }{
		"Hydra, a group": {"You must specify 'dataset', e.g, dataset=<OPTION>\nAvailable options:\n\tcifar\n\tspeech\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
			"You must specify 'dataset', e.g, dataset=<OPTION>"},
		"Hydra, an option": {"In 'config': Could not find 'model/resnet34'\n\nAvailable options in 'model':\n\tresnet18\n\tvit\nConfig search path:\n\tprovider=main, path=file:///app/conf\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
			"In 'config': Could not find 'model/resnet34'"},
		"Hydra, a type": {"Error merging override port=fail\nValue 'fail' could not be converted to Integer\n    full_key: port\n    object_type=Config\n",
			"Value 'fail' could not be converted to Integer full_key: port"},
		"dbt": {"02:00:04  Completed with 1 error, 0 partial successes, and 0 warnings:\n02:00:04  \n02:00:04    Database Error in model orders (models/orders.sql)\n  column vat does not exist\n  LINE 3: select vat\n                 ^\n  compiled code at target/run/shop/models/orders.sql\n02:00:04  \n02:00:04  Done. PASS=2 WARN=0 ERROR=1 SKIP=0 TOTAL=3\n",
			"02:00:04    Database Error in model orders (models/orders.sql): column vat does not exist"},
		"dbt, a test": {"02:00:04  Failure in test not_null_orders_id (models/schema.yml)\n  Got 3 results, configured to fail if != 0\n02:00:04  Done. PASS=0 WARN=0 ERROR=1 SKIP=0 TOTAL=1\n",
			"02:00:04  Failure in test not_null_orders_id (models/schema.yml): Got 3 results, configured to fail if != 0"},
		"uv, versions": {"  × No solution found when resolving dependencies:\n  ╰─▶ Because only the following versions of acme are available:\n          acme<=1\n          acme==2\n      and you require acme>2, we can conclude that your requirements are unsatisfiable.\n\n      hint: a hint of what may help\n",
			"× No solution found when resolving dependencies: Because only the following versions of acme are available: acme<=1 acme==2 and you require acme>2, we can conclude that your requirements are unsatisfiable."},
		"uv, a host": {"  × Failed to download `acme==2`\n  ├─▶ Failed to fetch: `https://index.example/acme`\n  ├─▶ client error (Connect)\n  ╰─▶ " + noHost + "\n",
			"× Failed to download `acme==2`, caused by: Failed to fetch: `https://index.example/acme`: " + noHost},
		"uv, a build": {"  × Failed to build `acme==2`\n  ├─▶ The build backend returned an error\n  ╰─▶ Call to `setuptools.build_meta.build_wheel` failed (exit status: 1)\n\n      [stderr]\n      error: command 'gcc' failed: No such file or directory\n\n      hint: This usually indicates a problem with the package or the build environment.\n",
			"error: command 'gcc' failed: No such file or directory (in the build of acme==2)"},
		"pip, no version": {"ERROR: Could not find a version that satisfies the requirement acme==9 (from versions: 1, 2)\nERROR: No matching distribution found for acme==9\nWARNING: You are using an old pip; however, a new one is available.\n",
			"ERROR: Could not find a version that satisfies the requirement acme==9 (from versions: 1, 2)"},
		"pip, a conflict": {"ERROR: Cannot install acme==1 and lake==2 because these package versions have conflicting dependencies.\n\nThe conflict is caused by:\n    acme 1 depends on numpy<2\n    lake 2 depends on numpy>=2\n\nTo fix this you could try to:\n1. loosen the range\n2. remove versions\n\nERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/\n",
			"ERROR: Cannot install acme==1 and lake==2 because these package versions have conflicting dependencies, caused by: acme 1 depends on numpy<2 lake 2 depends on numpy>=2"},
		"conda": {"Collecting package metadata: done\nSolving environment: failed\n\nPackagesNotFoundError: The following packages are not available from current channels:\n\n  - acme=9\n\nCurrent channels:\n\n  - https://conda.example/main\n",
			"PackagesNotFoundError: The following packages are not available from current channels: - acme=9"},
		"pipenv": {"Your Pipfile.lock (3f1ab2) is out of date. Expected: (c8e21d).\nUsage: pipenv install [OPTIONS] [PACKAGES]...\n\nERROR:: Aborting deploy\n",
			"Your Pipfile.lock (3f1ab2) is out of date. Expected: (c8e21d)."},
		"poetry": {"Because shop depends on acme (^2) which doesn't match any versions, version solving failed.\n",
			"Because shop depends on acme (^2) which doesn't match any versions, version solving failed."},
		"cargo": {"error: failed to get `acme` as a dependency of package `shop v0.1.0 (/app)`\n\nCaused by:\n  failed to load source for dependency `acme`\n\nCaused by:\n  No such file or directory (os error 2)\n",
			"error: failed to get `acme` as a dependency of package `shop v0.1.0 (/app)`, caused by: No such file or directory (os error 2)"},
		"cargo, a version": {"error: failed to sync\n\nCaused by:\n  failed to select a version for the requirement `acme = \"=9\"`\n  candidate versions found which didn't match: 2, 1\n  required by package `shop v0.1.0 (/app)`\n",
			"error: failed to sync, caused by: failed to select a version for the requirement `acme = \"=9\"` candidate versions found which didn't match: 2, 1 required by package `shop v0.1.0 (/app)`"},
		"anyhow": {"Error: cannot read the ledger\n\nCaused by:\n    0: part 3 is torn\n    1: unexpected end of file\n\nStack backtrace:\n   0: anyhow::error::from\n             at /root/lib.rs:12:9\n",
			"Error: cannot read the ledger, caused by: unexpected end of file"},
		"rustc": {"error[E0308]: mismatched types\n --> src/main.rs:4:5\n  |\n4 |     rows\n  |     ^^^^ expected `u32`, found `String`\n\nerror: aborting due to 1 previous error\n",
			"error[E0308]: mismatched types"},
		"Go's log": {"2026/11/20 10:00:00 open shards: no such file or directory\nexit status 1\n", "2026/11/20 10:00:00 open shards: no such file or directory"},
		"Java": {"26/11/25 02:44:02 ERROR Main: batch failed\njava.lang.RuntimeException: batch failed\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException: disk of lake-7 is full\n\tat a.B.d(B.java:2)\n\t... 5 more\n",
			"java.lang.RuntimeException: batch failed, caused by: java.io.IOException: disk of lake-7 is full"},
		"Gradle": {"FAILURE: Build failed with an exception.\n\n* What went wrong:\nExecution failed for task ':compileJava'.\n> Could not resolve com.acme:lake:9.\n\n* Try:\n> Run with --stacktrace option to get the stack trace.\n\nBUILD FAILED in 2s\n",
			"> Could not resolve com.acme:lake:9."},
		"Maven": {"[INFO] BUILD FAILURE\n[ERROR] Failed to execute goal org.acme:compile on project shop: Compilation failure\n[ERROR] /a/B.java:[3,2] cannot find symbol\n[ERROR] -> [Help 1]\n[ERROR] \n[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.\n",
			"[ERROR] /a/B.java:[3,2] cannot find symbol"},
		"Nextflow": {"ERROR ~ Error executing process > 'ALIGN (3)'\n\nCaused by:\n  Process `ALIGN (3)` terminated with an error exit status (137)\n\nCommand executed:\n\n  bwa mem ref.fa a.fq\n\nWork dir:\n  /scratch/ab/12\n\n -- Check '.nextflow.log' file for details\n",
			"ERROR ~ Error executing process > 'ALIGN (3)', caused by: Process `ALIGN (3)` terminated with an error exit status (137)"},
		"npm": {"npm error code ENOENT\nnpm error enoent Could not read package.json\nnpm error enoent This is related to npm not being able to find a file.\nnpm error A complete log of this run can be found in: /root/.npm/_logs/a-debug-0.log\n",
			"npm error code ENOENT Could not read package.json This is related to npm not being able to find a file."},
		"npm, a page": {"npm error code E404\nnpm error 404 Not Found - GET https://npm.acme.example/@acme%2fcharts\nnpm error 404\nnpm error 404  '@acme/charts@^4' is not in this registry.\nnpm error 404 Note that you can also install from a\nnpm error 404 tarball, folder, http url, or git folder.\nnpm error A complete log of this run can be found in: /a.log\n",
			"npm error code E404 Not Found - GET https://npm.acme.example/@acme%2fcharts '@acme/charts@^4' is not in this registry. Note that you can also install from a tarball, folder, http url, or git folder."},
		"npm, a conflict": {"npm ERR! code ERESOLVE\nnpm ERR! ERESOLVE could not resolve\nnpm ERR!\nnpm ERR! Found: lake@2.0.0\nnpm ERR! Could not resolve dependency: peer lake@^1 from shop@9\nnpm ERR! Fix the upstream dependency conflict\n",
			"npm ERR! code ERESOLVE could not resolve Found: lake@2.0.0 Could not resolve dependency: peer lake@^1 from shop@9 Fix the upstream dependency conflict"},
		"Node, a promise": {"[UnhandledPromiseRejection: This error originated either by throwing inside of an async function without a catch block. The promise rejected with the reason \"no shard 3\".] {\n  code: 'ERR_UNHANDLED_REJECTION'\n}\n\nNode.js v20.20.2\n",
			"[UnhandledPromiseRejection: This error originated either by throwing inside of an async function without a catch block. The promise rejected with the reason \"no shard 3\".] {"},
		"Node, a cause": {"node:internal/process/promises:288\n            triggerUncaughtException(err, true);\n            ^\n\nTypeError: fetch failed\n    at fetch (node:internal/a:7:13)\n    at async load (/app/d.js:2:1) {\n  [cause]: Error: connect ECONNREFUSED 10.0.3.7:5432\n      at afterConnect [as oncomplete] (node:net:1611:16) {\n    errno: -111,\n    port: 5432\n  }\n}\n\nNode.js v20.20.2\n",
			"Error: connect ECONNREFUSED 10.0.3.7:5432"},
		"Node, no cause": {"/app/d.js:1\nTypeError: fetch failed\n    at load (/app/d.js:2:1) {\n  [cause]: undefined\n}\n\nNode.js v20.11.0\n", "TypeError: fetch failed"},
		"Node, causes": {"/app/i.js:1\nError: outer step\n    at Object.<anonymous> (/app/i.js:1:37) {\n  [cause]: Error: middle\n      at Object.<anonymous> (/app/i.js:1:70) {\n    [cause]: AggregateError [ECONNREFUSED]: \n        at internalConnect (node:net:1118:18)\n        at process (node:a:1:2)\n  }\n}\n",
			"AggregateError [ECONNREFUSED]"},
		".NET, a cause": {"Unhandled exception. System.InvalidOperationException: ledger 7 was not closed\n ---> System.IO.IOException: disk of lake-7 is full\n   at Ledger.Write() in /app/Ledger.cs:line 3\n   --- End of inner exception stack trace ---\n   at Program.Main() in /app/P.cs:line 9\n",
			"System.IO.IOException: disk of lake-7 is full"},
		"Perl, a module":          {"Can't locate Geo/Shape.pm in @INC (@INC entries checked: /etc/perl) at Lake.pm line 1.\nBEGIN failed--compilation aborted at Lake.pm line 1.\nCompilation failed in require at a.pl line 2.\nBEGIN failed--compilation aborted at a.pl line 2.\n", "Can't locate Geo/Shape.pm in @INC (@INC entries checked: /etc/perl) at Lake.pm line 1."},
		"Perl, a name":            {"Global symbol \"$y\" requires explicit package name at a.pl line 3.\nExecution of a.pl aborted due to compilation errors.\n", "Global symbol \"$y\" requires explicit package name at a.pl line 3."},
		"go run":                  {"sync: shard 3: file already closed\nexit status 3\n", "sync: shard 3: file already closed"},
		"set -u":                  {"run.sh: line 3: BUCKET: unbound variable\n", "run.sh: line 3: BUCKET: unbound variable"},
		"set -x":                  {"+ aws s3 cp rows s3://lake\nfatal error: Unable to locate credentials\n+ exit 1\n", "fatal error: Unable to locate credentials"},
		"argparse":                {"usage: train.py [-h] --lr LR\n                [--epochs EPOCHS]\ntrain.py: error: the following arguments are required: --lr\n", "train.py: error: the following arguments are required: --lr"},
		"argparse, with its help": {"train.py: error: unrecognized arguments: --lrr 3\n\noptions:\n  -h, --help  show this help message and exit\n  --lr LR     how fast\n", "train.py: error: unrecognized arguments: --lrr 3"},
		"click":                   {"Usage: train [OPTIONS]\nTry 'train --help' for help.\n\nError: Missing option '--lr'.\n", "Error: Missing option '--lr'."},
		"typer": {"\x1b[1m Usage: \x1b[0mtrain [OPTIONS]\n Try 'train --help' for help.\n╭─ Error ──────────────────╮\n│ Invalid value for        │\n│ '--rows': File 'rows.csv' │\n│ is a directory.          │\n╰──────────────────────────╯\n",
			"Error: Invalid value for '--rows': File 'rows.csv' is a directory."},
		"absl": {"FATAL Flags parsing error:\n  Unknown command line flag 'lrr'. Did you mean: lr ?\nPass --helpshort or --helpfull to see help on flags.\n",
			"FATAL Flags parsing error: Unknown command line flag 'lrr'. Did you mean: lr ?"},
		"docker": {"docker: Error response from daemon: manifest for acme:9 not found.\nSee 'docker run --help'.\n", "docker: Error response from daemon: manifest for acme:9 not found."},
		"pydantic, printed": {"ValidationError: 1 validation error for Config\nlr\n  Input should be a valid number [type=float_type]\n",
			"ValidationError: 1 validation error for Config lr Input should be a valid number [type=float_type]"},
		"pydantic": {"shop: error: argument settings: 2 validation errors for Settings\nlr\n  Field required [type=missing, input_value={}, input_type=dict]\n    For further information visit https://errors.pydantic.dev/2.7/v/missing\nsteps\n  Field required [type=missing, input_value={}, input_type=dict]\n    For further information visit https://errors.pydantic.dev/2.7/v/missing\n", "Field required [type=missing, input_value={}, input_type=dict]"},
		"Terraform": {"╷\n│ Error: Reference to undeclared output value\n│ \n│   on outputs.tf line 37, in output \"ips\":\n│   37:   value = module.web.ips\n│ \n│ An output value with the name \"ips\" has not been declared in module.web.\n╵\n",
			"Error: Reference to undeclared output value on outputs.tf line 37, in output \"ips\": 37:   value = module.web.ips An output value with the name \"ips\" has not been declared in module.web."},
		"Helm":    {"Error: UPGRADE FAILED: \"shop\" has no deployed releases\nhelm.go:84: [debug] \"shop\" has no deployed releases\n", "Error: UPGRADE FAILED: \"shop\" has no deployed releases"},
		"kubectl": {"Error from server (NotFound): pods \"web-0\" not found\n", "Error from server (NotFound): pods \"web-0\" not found"},
		"gcloud": {"ERROR: (gcloud.storage.cp) PERMISSION_DENIED: no access to lake-7\n- '@type': type.googleapis.com/google.rpc.ErrorInfo\n  domain: googleapis.com\n",
			"ERROR: (gcloud.storage.cp) PERMISSION_DENIED: no access to lake-7"},
		"psql":          {"ERROR:  relation \"orders\" does not exist\nLINE 1: select * from orders\n                      ^\n", "ERROR:  relation \"orders\" does not exist"},
		"git":           {"git: 'comit' is not a git command. See 'git --help'.\n\nThe most similar command is\n\tcommit\n", "git: 'comit' is not a git command. See 'git --help'."},
		"CMake":         {"CMake Error at CMakeLists.txt:3 (find_package):\n  Could not find a package configuration file provided by \"Arrow\".\n\n\n-- Configuring incomplete, errors occurred!\n", "Could not find a package configuration file provided by \"Arrow\"."},
		"ninja":         {"FAILED: fused.o \nc++ -c fused.cpp\nfused.cpp:3:10: fatal error: cuda.h: No such file or directory\n    3 | #include <cuda.h>\n      |          ^~~~~~~~\ncompilation terminated.\nninja: build stopped: subcommand failed.\n", "fused.cpp:3:10: fatal error: cuda.h: No such file or directory"},
		"make":          {"cc: error: rows.c: No such file or directory\nmake: *** [Makefile:3: rows] Error 1\n", "cc: error: rows.c: No such file or directory"},
		"Tune":          {"no resources for trial 3\nTrial status: 1 RUNNING | 2 ERROR\n", "Trial status: 1 RUNNING | 2 ERROR"},
		"Open MPI":      {"MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n\nNOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\nYou may or may not see output from other processes.\n", "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD with errorcode 1."},
		"Tune, waiting": {"Trial status: 1 PENDING\nthe sweep made no progress\n", "the sweep made no progress"},
		"go": {"go: downloading acme.example/lake v0.3.1\ngo: acme.example/lake@v0.3.1: reading https://proxy.acme.example/lake/@v/v0.3.1.mod: 410 Gone\n\tserver response: not found: unrecognized import path\n",
			"go: acme.example/lake@v0.3.1: reading https://proxy.acme.example/lake/@v/v0.3.1.mod: 410 Gone: server response: not found: unrecognized import path"},
		"a table":      {"╭──────────────────╮\n│ Trial     failed │\n├──────────────────┤\n│ fit_0    errored │\n╰──────────────────╯\nbye\n", "bye"},
		"rich's frame": {"ERROR: disk of lake-7 is full\n╭───── Traceback (most recent call last) ─────╮\n│ /app/a.py:3 in load │\n│ ❱ 3 raise Failed() │\n╰─────────────────────╯\n", "ERROR: disk of lake-7 is full"},
	} {
		says.Equal(t, LastWords(c.log), c.want, "%s", name)
	}
}

// TestBare: behind words that only say that something failed, why is told, also if others of the kind are between them.
func TestBare(t *testing.T) {
	for log, want := range map[string]string{
		"error: rows 3 and 7 are malformed\nerror: step 'load' failed\nfatal: run of 2026-11-20 failed\n":                                                                                                                                                                                 "error: rows 3 and 7 are malformed",
		"ERROR: /app/BUILD:3:10: target '//lib:rows' is not defined\nERROR: Analysis of target '//:etl' failed; build aborted: Analysis failed\nINFO: Elapsed time: 0.5s\nERROR: Build did NOT complete successfully\n":                                                                   "ERROR: /app/BUILD:3:10: target '//lib:rows' is not defined",
		"row 7 has no price\nnox > Command python etl.py failed with exit code 1\nnox > Session etl-3.11 failed.\n":                                                                                                                                                                       "row 7 has no price",
		"Error downloading object: model.bin (9f2): This repository is over its data quota.\n\nErrors logged to /app/.git/lfs/logs/1.log\nUse `git lfs logs last` to view the log.\nerror: external filter 'git-lfs filter-process' failed\nfatal: model.bin: smudge filter lfs failed\n": "Error downloading object: model.bin (9f2): This repository is over its data quota.",
		"loaded 400 rows\nexport failed\n": "",
	} {
		said := LastWords(log)
		says.Equal(t, ErrorBefore(log, said), want, "before %q", said)
	}
}

// TestNoErrorsOfTools: what tools print as they go on or succeed is no error, whatever words it has.
func TestNoErrorsOfTools(t *testing.T) {
	for name, log := range map[string]string{
		"pytest":         "tests/test_failures.py ...... [100%]\n====== 12 passed, 2 warnings in 3.21s ======\n",
		"dbt":            "02:00:04  Completed successfully\n02:00:04  Done. PASS=3 WARN=0 ERROR=0 SKIP=0 TOTAL=3\n",
		"a bar":          "errors:  40%|####      | 4/10 [00:02<00:03,  1.9it/s]\n",
		"deprecations":   "/app/a.py:7: DeprecationWarning: this is an error in later versions\n  warnings.warn(\"fails\")\n",
		"TensorFlow":     "2026-11-20 10:00:00.123456: W external/xla/a.cc:3] Unable to register cuBLAS factory, as one is registered\n",
		"pip's notice":   "[notice] A new release of pip is available: 24.0 -> 26.1\n[notice] To update, run: pip install --upgrade pip\n",
		"Ansible":        "PLAY RECAP *****\nweb : ok=3 changed=1 unreachable=0 failed=0 skipped=0 rescued=0\n",
		"a report":       "{\"loss\": 0.31, \"error\": null, \"failed\": 0}\n",
		"a metric":       "[99]\ttrain-error:0.04312\teval-error:0.05117\n",
		"a box":          "╭─ Results ─╮\n│ 3 rows    │\n│ 0 errors  │\n╰───────────╯\n",
		"what is to be":  "Available options:\n  --fail-fast  stop at the first error\n  --retry      try again what failed\n",
		"a heading":      "Exception occurred in user code, with the abbreviated stack trace below. The Ray Data internal stack frames are omitted from stdout.\n",
		"a count of all": "Found 0 errors in 12 files (checked 12 source files)\n",
	} {
		if got := LastError(log); got != "" || EndsInError(log) {
			t.Errorf("%s: %q is taken for an error", name, got)
		}
		if got := ErrorBefore(log+"fatal: disk is full\n", "fatal: disk is full"); got != "" && !strings.Contains(log, " W ") {
			t.Errorf("%s: %q is told as an earlier error", name, got)
		}
	}
}

// TestBuiltPackage: what ended the build of a package is told with the package, as uv and pip name it.
func TestBuiltPackage(t *testing.T) {
	const noTorch = "ModuleNotFoundError: No module named 'torch'"
	for log, want := range map[string]string{
		"  × Failed to build `flash-attn==2.5.8`\n  ├─▶ The build backend returned an error\n  ╰─▶ Call to `setuptools.build_meta.build_wheel` failed (exit status: 1)\n\n      [stderr]\n" +
			"      Traceback (most recent call last):\n        File \"<string>\", line 14, in <module>\n      " + noTorch + "\n": noTorch + " (in the build of flash-attn==2.5.8)",
		"  × Getting requirements to build wheel did not run successfully.\n  │ exit code: 1\n  ╰─> [4 lines of output]\n      Traceback (most recent call last):\n        File \"<string>\", line 14, in <module>\n      " +
			noTorch + "\n      [end of output]\nERROR: Failed to build 'flash-attn' when getting requirements to build wheel\n": noTorch + " (in the build of flash-attn)",
		"error: command 'gcc' failed: No such file or directory\n  ERROR: Failed building wheel for pycocotools\nFailed to build pycocotools\n":                    "error: command 'gcc' failed: No such file or directory (in the build of pycocotools)",
		"error: command 'gcc' failed: No such file or directory\nERROR: Failed to build installable wheels for some pyproject.toml based projects (pycocotools)\n": "error: command 'gcc' failed: No such file or directory (in the build of pycocotools)",
		"error: failed to build image 'trainer'\n": "error: failed to build image 'trainer'",
	} {
		says.Equal(t, LastWords(log), want, "%q", log)
	}
}
