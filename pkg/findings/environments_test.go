package findings

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

const (
	// envFailedOfJob begins what Ray's agent says of an environment that it could not make, as it says it of a job.
	envFailedOfJob = "runtime_env setup failed: Failed to set up runtime environment.\nCould not create the actor because its associated runtime env failed to be created.\n[Node 10.0.0.21] "
	frameOfAgent   = "Traceback (most recent call last):\n  File \"/ray/runtime_env_agent.py\", line 561, in _create_runtime_env_with_retry\n    runtime_env_context = await asyncio.wait_for(\n                          ^^^^^^^^^^^^^^^^^^^^^^^\n"
	tookTooLong    = "Failed to install runtime_env within the timeout of 600 seconds. Consider increasing the timeout in the runtime_env config. For example: \n    runtime_env={\"config\": {\"setup_timeout_seconds\": 1800}, ...}\nIf not provided, the default timeout is 600 seconds. " +
		frameOfAgent + "asyncio.exceptions.CancelledError\n\nThe above exception was the direct cause of the following exception:\n\n" + frameOfAgent + "TimeoutError\n"
	pipFile = "/tmp/ray/session_2026-11-25_22-53-50_761574_21/runtime_resources/pip/88736cde/ray_runtime_env_internal_pip_requirements.txt"
	conda   = "Channels:\n- defaults\nPlatform: linux-64\nCollecting package metadata (repodata.json): ...working... done\n"
)

// failedTool returns Ray's message about a command that ended in some way, with what the command printed.
func failedTool(ended string, printed ...string) string {
	said := envFailedOfJob + frameOfAgent + "ray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[9] failed with the following details.\nCommand '['/tmp/ray/virtualenv/bin/python', '-m', 'pip', 'install', '-r', '" + pipFile + "', '--no-cache-dir']' " + ended + ".\n"
	for i, line := range printed {
		if i == 0 {
			said += "Last 50 lines of stdout:\n"
		}
		if line != "" {
			line = "    " + line
		}
		said += line + "\n"
	}
	return said + " lease_id=0000000004000000ffff, name=read_receipts\n"
}

// TestEnvReason: why an environment could not be made is what the tool says that made it, and never what Ray says of
// any that failed.
func TestEnvReason(t *testing.T) {
	const failed = "returned non-zero exit status 1"
	toConda := func(printed string) string {
		return envFailedOfJob + frameOfAgent + "RuntimeError: Failed to install conda environment /tmp/ray/session/conda/99:\nOutput:\n" + conda + printed
	}
	noNet := func(left string) string {
		return "WARNING: Retrying (Retry(total=" + left + ", connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7fe8>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/acme/"
	}
	for name, c := range map[string]struct{ said, want string }{
		"no time":           {envFailedOfJob + tookTooLong, "it was not made within 600 s"},
		"no time, a task":   {"[Node 10.0.0.21] " + tookTooLong, "it was not made within 600 s"},
		"a bare exception":  {envFailedOfJob + frameOfAgent + "AssertionError\n", "AssertionError"},
		"a heading alone":   {envFailedOfJob + "The agent is gone, so it failed.", "The agent is gone, so it failed."},
		"a plugin":          {envFailedOfJob + frameOfAgent + "ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.\nnsight is not installed\n", "RuntimeEnvSetupError: nsight is not installed"},
		"no program":        {envFailedOfJob + frameOfAgent + "FileNotFoundError: [Errno 2] No such file or directory: 'podman'\n\nThe above exception was the direct cause of the following exception:\n\n" + frameOfAgent + "RuntimeError: Run cmd[3] got exception.\n", "FileNotFoundError: [Errno 2] No such file or directory: 'podman'"},
		"killed":            {failedTool("died with <Signals.SIGKILL: 9>", "Collecting torch", "ERROR: a warning of before"), "pip died with <Signals.SIGKILL: 9>"},
		"without a word":    {failedTool(failed), "pip " + failed},
		"pip check":         {failedTool(failed, "acme 1.0 has requirement lake<2, but you have lake 3.0."), "pip " + failed + ": acme 1.0 has requirement lake<2, but you have lake 3.0."},
		"virtualenv":        {failedTool(failed, "/usr/bin/python3: No module named virtualenv"), "/usr/bin/python3: No module named virtualenv"},
		"pip":               {failedTool(failed, "ERROR: Could not find a version that satisfies the requirement acme==1 (from versions: 2, 3)", "ERROR: No matching distribution found for acme==1"), "ERROR: Could not find a version that satisfies the requirement acme==1 (from versions: 2, 3)"},
		"no network":        {failedTool(failed, noNet("1"), noNet("0"), "ERROR: Could not find a version that satisfies the requirement acme (from versions: none)", "ERROR: No matching distribution found for acme"), "ERROR: Could not find a version that satisfies the requirement acme (from versions: none), caused by: NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection …>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')"},
		"one lost request":  {failedTool(failed, noNet("4"), "ERROR: Could not find a version that satisfies the requirement acme (from versions: none)", "ERROR: No matching distribution found for acme"), "ERROR: Could not find a version that satisfies the requirement acme (from versions: none)"},
		"another package":   {failedTool(failed, noNet("0"), "Collecting acme", "Collecting lake", "ERROR: Could not find a version that satisfies the requirement lake (from versions: none)", "ERROR: No matching distribution found for lake"), "ERROR: Could not find a version that satisfies the requirement lake (from versions: none)"},
		"versions were had": {failedTool(failed, noNet("0"), "ERROR: Could not find a version that satisfies the requirement acme==9 (from versions: 1, 2)", "ERROR: No matching distribution found for acme==9"), "ERROR: Could not find a version that satisfies the requirement acme==9 (from versions: 1, 2)"},
		"pip crashes":       {failedTool(failed, "ERROR: Exception:", "Traceback (most recent call last):", "  File \"/pip/response.py\", line 443, in _error_catcher", "    raise ReadTimeoutError(self._pool, None, \"Read timed out.\")", "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.example', port=443): Read timed out."), "ReadTimeoutError: HTTPSConnectionPool(host='files.example', port=443): Read timed out."},
		"hashes":            {failedTool(failed, "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please update the hashes.", "    acme==2.31.0 from https://index.example/acme.whl:", "        Expected sha256 00", "             Got        58"), "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please update the hashes. acme==2.31.0 from https://index.example/acme.whl:"},
		"a conflict": {failedTool(failed, "ERROR: Cannot install -r "+pipFile+" (line 1) and lake==1.20 because these package versions have conflicting dependencies.", "", "The conflict is caused by:", "    The user requested lake==1.20", "    acme 2 depends on lake<3 and >=1.21", "", "To fix this you could try to:", "1. loosen the range of package versions you've specified", "", "ERROR: ResolutionImpossible: for help visit https://pip.example"),
			"ERROR: Cannot install -r ray_runtime_env_internal_pip_requirements.txt (line 1) and lake==1.20 because these package versions have conflicting dependencies, caused by: The user requested lake==1.20 acme 2 depends on lake<3 and >=1.21"},
		"a build": {failedTool(failed, "Collecting flash-attn", "  error: subprocess-exited-with-error", "  ", "  × python setup.py egg_info did not run successfully.", "  │ exit code: 1", "  ╰─> [6 lines of output]", "      Traceback (most recent call last):", "        File \"setup.py\", line 9, in <module>", "      ModuleNotFoundError: No module named 'torch'", "      [end of output]", "  ", "  note: This error originates from a subprocess, and is likely not a problem with pip.", "error: metadata-generation-failed"),
			"ModuleNotFoundError: No module named 'torch'"},
		"a compiler": {failedTool(failed, "  × Building wheel for acme (pyproject.toml) did not run successfully.", "  │ exit code: 1", "  ╰─> [10 lines of output]", "      bad.c:1:10: fatal error: nope.h: No such file or directory", "      compilation terminated.", "      error: Command '['gcc', '-c', 'bad.c']' returned non-zero exit status 1.", "      [end of output]", "  ", "  ERROR: Failed building wheel for acme", "Failed to build acme"),
			"bad.c:1:10: fatal error: nope.h: No such file or directory (in the build of acme)"},
		"git": {failedTool(failed, "  fatal: unable to access 'https://git.example/a.git/': 403", "  error: subprocess-exited-with-error", "  ", "  × git clone --quiet https://git.example/a.git did not run successfully.", "  │ exit code: 128", "  ╰─> See above for output.", "  ", "  note: This error originates from a subprocess, and is likely not a problem with pip."),
			"fatal: unable to access 'https://git.example/a.git/': 403"},
		"uv": {failedTool(failed, "Using Python 3.11.7 environment at: t", "  × No solution found when resolving dependencies:", "  ╰─▶ Because acme was not found in the package registry and you", "      require acme==1, your requirements are unsatisfiable."),
			"× No solution found when resolving dependencies: Because acme was not found in the package registry and you require acme==1, your requirements are unsatisfiable."},
		"uv, a build": {failedTool(failed, "  × Failed to build `flash-attn==2.8.3`", "  ├─▶ The build backend returned an error", "  ╰─▶ Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit", "      status: 1)", "", "      [stderr]", "      Traceback (most recent call last):", "        File \"<string>\", line 14, in <module>", "      ModuleNotFoundError: No module named 'torch'", "", "      hint: This error likely indicates that `flash-attn@2.8.3` depends on", "      `torch`, but doesn't declare it as a build dependency."),
			"ModuleNotFoundError: No module named 'torch' (in the build of flash-attn==2.8.3)"},
		"uv 0.13": {failedTool(failed, "error: No solution found when resolving dependencies", "  cause: Because lake>=1 is required", "         and you require lake==0, your requirements are unsatisfiable."),
			"error: No solution found when resolving dependencies, caused by: Because lake>=1 is required and you require lake==0, your requirements are unsatisfiable."},
		"conda": {toConda("Solving environment: ...working... failed\nLibMambaUnsatisfiableError: Encountered problems while solving:\n- nothing provides requested pandas 99.9**\nCould not solve for environment specs\n"),
			"LibMambaUnsatisfiableError: Encountered problems while solving: - nothing provides requested pandas 99.9** Could not solve for environment specs"},
		"conda, no network": {toConda("CondaHTTPError: HTTP 000 CONNECTION FAILED for url <https://conda.example/linux-64/repodata.json>\nElapsed: -\nAn HTTP error occurred when trying to retrieve this URL.\nHTTP errors are often intermittent, and a simple retry will get you on your way.\n"),
			"CondaHTTPError: HTTP 000 CONNECTION FAILED for url <https://conda.example/linux-64/repodata.json>"},
		"conda's pip": {toConda("SafetyError: The package for libcxx located at /pkgs/libcxx appears to be corrupted.\n==> WARNING: A newer version of conda exists. <==\nPip subprocess error:\nERROR: Could not find a version that satisfies the requirement acme==1 (from versions: none)\nERROR: No matching distribution found for acme==1\nfailed\nCondaEnvException: Pip failed\n"),
			"ERROR: Could not find a version that satisfies the requirement acme==1 (from versions: none)"},
		"podman": {envFailedOfJob + frameOfAgent + "RuntimeError: Podman command failed: cmd=['podman', 'run', 'acme/x:9', 'python', '-c', \"\\nimport ray\\nwith open('/shared', 'w') as f:\\n\"], returncode=125, stdout=, stderr=Trying to pull docker.io/acme/x:9...\nError: initializing source docker://acme/x:9: reading manifest 9 in docker.io/acme/x: manifest unknown\n",
			"Error: initializing source docker://acme/x:9: reading manifest 9 in docker.io/acme/x: manifest unknown"},
		"a module's wheel": {envFailedOfJob + frameOfAgent + "RuntimeError: Failed to install py_modules wheel /tmp/ray/wheel.whlto /tmp/ray/py_modules/1:\nProcessing /tmp/ray/wheel.whl\nERROR: wheel.whl is not a valid wheel filename.\n", "ERROR: wheel.whl is not a valid wheel filename."},
	} {
		says.Equal(t, envReason(c.said), c.want, "%s", name)
	}
}

// TestEnvAdvice: an environment that took too long needs another help than one whose package is not there, and one
// whose index did not answer a third.
func TestEnvAdvice(t *testing.T) {
	for reason, want := range map[string]string{
		"it was not made within 600 s": "give the environment more time",
		"ERROR: Could not find a version that satisfies the requirement acme (from versions: none)":                                                        "Correct the package's name and version",
		"LibMambaUnsatisfiableError: nothing provides requested acme 9":                                                                                    "Correct the package's name and version",
		"ERROR: Could not find a version that satisfies the requirement acme (from versions: none), caused by: NameResolutionError(\"Failed to resolve\")": "Check that pods reach the package index",
		"× No solution found when resolving dependencies: An index URL (https://index.example) could not be queried (401 Unauthorized)":                    "Check that pods reach the package index",
		"error: No solution found when resolving dependencies, caused by: Because acme was not found in the package registry and you require it":           "Correct the package's name and version",
	} {
		f := &finding{Finding: Finding{Kind: RuntimeEnv, Title: "Job a could not start: its runtime environment could not be set up: " + reason}}
		if got := f.help().Advice; !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}
