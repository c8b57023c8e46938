package findings_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestReportedLogs: logs of drivers as people show them in public, of what needs GPUs, an object store or Kubernetes;
// the title names the cause that they found.
func TestReportedLogs(t *testing.T) {
	const module = "Traceback (most recent call last):\n  File \"/app/train.py\", line 7, in <module>\n    main()\n"
	for name, c := range map[string]struct {
		code       int
		log, title string
	}{
		"NCCL finds no address": {1, module +
			`torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:275, ` +
			`unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.19.3
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
Last error:
socketStartConnect: Connect to 172.17.0.2<38045> failed : Connection refused
`, `socketStartConnect: Connect to 172\.17\.0\.2<38045> failed : Connection refused`},
		"a watchdog": {134, `step 44
[rank0]:[E1122 10:10:00.10 ProcessGroupNCCL.cpp:563] [Rank 0] Watchdog caught collective operation timeout: ` +
			`WorkNCCL(SeqNum=44, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600026 milliseconds before timing out.
[rank0]:[E1122 10:10:00.11 ProcessGroupNCCL.cpp:577] Some NCCL operations have failed or timed out.
terminate called after throwing an instance of 'std::runtime_error'
  what():  [Rank 0] NCCL watchdog thread terminated with exception: [Rank 0] Watchdog caught collective operation ` +
			`timeout: WorkNCCL(SeqNum=44, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600026 milliseconds
Aborted (core dumped)
`, `Watchdog caught collective operation timeout`},
		"a rank that never came": {1, `[rank0]: Traceback (most recent call last):
[rank0]:   File "/app/train.py", line 3, in <module>
[rank0]:     from apex import amp
[rank0]: ModuleNotFoundError: No module named 'apex'
[rank1]: Traceback (most recent call last):
[rank1]:   File "/app/train.py", line 9, in <module>
[rank1]:     dist.init_process_group("nccl")
[rank1]: torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.
`, `No module named 'apex'`},
		"shared memory of a loader": {1, `ERROR: Unexpected bus error encountered in worker. ` +
			`This might be caused by insufficient shared memory (shm).
` + module + `RuntimeError: DataLoader worker (pid(s) 4242) exited unexpectedly
`, `insufficient shared memory`},
		"a cache that is too small": {1, `(EngineCore_0 pid=61) ERROR 11-22 10:00:09 [core.py:718] EngineCore failed to start.
(EngineCore_0 pid=61) ERROR 11-22 10:00:09 [core.py:718] Traceback (most recent call last):
(EngineCore_0 pid=61) ERROR 11-22 10:00:09 [core.py:718]   File "/v/vllm/v1/core/kv_cache_utils.py", line 6, in check
(EngineCore_0 pid=61) ERROR 11-22 10:00:09 [core.py:718]     raise ValueError(
(EngineCore_0 pid=61) ERROR 11-22 10:00:09 [core.py:718] ValueError: To serve at least one request with the ` +
			`models's max seq len (131072), 16.00 GiB KV cache is needed, which is larger than the available 7.21 GiB.
(APIServer pid=59) Traceback (most recent call last):
(APIServer pid=59)   File "/v/bin/vllm", line 8, in <module>
(APIServer pid=59)     sys.exit(main())
(APIServer pid=59) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
`, `16\.00 GiB KV cache is needed`},
		"a worker of an engine": {1, "\x1b[36m(RayWorkerWrapper pid=285, ip=10.0.0.2)\x1b[0m ERROR 11-22 10:00:09 " +
			`[worker_base.py:621] Error executing method 'init_device'. This might cause deadlock in distributed execution.
` + "\x1b[36m(RayWorkerWrapper pid=285, ip=10.0.0.2)\x1b[0m ERROR 11-22 10:00:09 [worker_base.py:621] " +
			`ValueError: Free memory on device (5.1/23.6 GiB) on startup is less than desired GPU memory utilization (0.9)
` + module + `RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
`, `Free memory on device \(5\.1/23\.6 GiB\)`},
		"a model that is not public": {1, `Traceback (most recent call last):
  File "/v/site-packages/huggingface_hub/utils/_http.py", line 406, in hf_raise_for_status
    response.raise_for_status()
requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/meta-llama/config.json

The above exception was the direct cause of the following exception:

` + module + `  File "/v/site-packages/transformers/utils/hub.py", line 360, in cached_file
    raise OSError(
OSError: You are trying to access a gated repo.
Make sure to have access to it at https://huggingface.co/meta-llama.
401 Client Error. (Request ID: Root=1-66)
`, `gated repo`},
		"rights on a bucket": {1, module + `  File "pyarrow/error.pxi", line 92, in pyarrow.lib.check_status
OSError: When getting information for key 'runs/.validate' in bucket 'ml-prod': ` +
			`AWS Error ACCESS_DENIED during HeadObject operation: No response body.
`, `ml-prod.*ACCESS_DENIED`},
		"no credentials for a download": {2, `fatal error: Unable to locate credentials
python: can't open file '/home/ray/train.py': [Errno 2] No such file or directory
`, `Unable to locate credentials`},
		"submitted twice": {1, `2026-11-22 10:08:19,318	INFO cli.py:36 -- Job submission server address: http://head:8265
` + module + `RuntimeError: Request failed with status code 500: Traceback (most recent call last):
  File "/v/ray/dashboard/modules/job/job_head.py", line 287, in submit_job
    resp = await job_agent_client.submit_job_internal(submit_request)
RuntimeError: Request failed with status code 400: ValueError: Job with submission_id rayjob-x already exists.
`, `submission_id rayjob-x already exists`},
		"a message that begins with a line end": {1, module + `RuntimeError: 
        CUDA Setup failed despite GPU being available. Please run the following command to get more information:

        python -m bitsandbytes
`, `CUDA Setup failed despite GPU being available`},
		"a build of pip": {1, `Collecting deepspeed==0.14.0
  Preparing metadata (setup.py): finished with status 'error'
  error: subprocess-exited-with-error

  × python setup.py egg_info did not run successfully.
  │ exit code: 1
  ╰─> [9 lines of output]
      Traceback (most recent call last):
        File "<string>", line 2, in <module>
        File "/tmp/pip/op_builder/builder.py", line 51, in installed_cuda_version
          raise MissingCUDAException("CUDA_HOME does not exist, unable to compile CUDA op(s)")
      op_builder.builder.MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: metadata-generation-failed

× Encountered error while generating package metadata.
╰─> See above for output.

note: This is an issue with the package mentioned above, not pip.
hint: See above for details.
`, `CUDA_HOME does not exist`},
		"a symbol": {1, `Traceback (most recent call last):
  File "/v/transformers/utils/import_utils.py", line 1603, in _get_module
    return importlib.import_module("." + module_name, self.__name__)
ImportError: /v/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi

The above exception was the direct cause of the following exception:

` + module + `RuntimeError: Failed to import transformers.models.llama.modeling_llama because of the following error ` +
			`(look up to see its traceback):
/v/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi
`, `undefined symbol: _ZN3c104cuda9SetDeviceEi`},
		"no way to a hub": {1, `Traceback (most recent call last):
  File "/app/step.py", line 3, in <module>
    load()
OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.
Check your internet connection or see how to run the library in offline mode.
Traceback (most recent call last):
  File "/v/bin/accelerate", line 8, in <module>
    sys.exit(main())
subprocess.CalledProcessError: Command '['/v/bin/python', 'step.py']' returned non-zero exit status 1.
`, `couldn't connect to 'https://huggingface\.co'`},
		"Rust": {1, `thread '<unnamed>' panicked at src/tokenizer.rs:12:5:
called ` + "`Result::unwrap()` on an `Err`" + ` value: Error("expected value", line: 1, column: 1)
note: run with ` + "`RUST_BACKTRACE=1`" + ` environment variable to display a backtrace
` + module + "pyo3_runtime.PanicException: called `Result::unwrap()` on an `Err`" +
			` value: Error("expected value", line: 1, column: 1)
`, `expected value", line: 1, column: 1`},
		"Java behind Python": {1, module + `py4j.protocol.Py4JJavaError: An error occurred while calling o61.load.
: java.lang.ClassNotFoundException: Failed to find the data source: delta. Please find packages at spark.apache.org.
	at org.apache.spark.sql.errors.QueryExecutionErrors$.dataSourceNotFoundError(QueryExecutionErrors.scala:725)
	at org.apache.spark.sql.DataFrameReader.load(DataFrameReader.scala:207)
Caused by: java.lang.ClassNotFoundException: delta.DefaultSource
	at java.base/java.net.URLClassLoader.findClass(Unknown Source)
`, `data source: delta|delta\.DefaultSource`},
		"hydra without a traceback": {1, `Could not override 'actor.lora_rnk'.
To append to your config use +actor.lora_rnk=8
Key 'lora_rnk' is not in struct
    full_key: actor.lora_rnk
    object_type=dict

Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.
`, `Could not override 'actor\.lora_rnk'|Key 'lora_rnk' is not in struct`},
		"a launcher's box": {137, `step 12
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
--------------------------------------------------------------------------
mpirun noticed that process rank 1 with PID 4711 on node worker-1 exited on signal 9 (Killed).
--------------------------------------------------------------------------
`, `process rank 1 .* exited on signal 9|SIGKILL`},
		"rights in Kubernetes": {1, module + `kubernetes.client.exceptions.ApiException: (403)
Reason: Forbidden
HTTP response headers: HTTPHeaderDict({'Audit-Id': '1b2c', 'Cache-Control': 'no-cache, private', ` +
			`'Content-Type': 'application/json', 'X-Content-Type-Options': 'nosniff', 'Content-Length': '285'})
HTTP response body: {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods is forbidden: ` +
			`User \"system:serviceaccount:ray:default\" cannot list resource \"pods\" in API group","code":403}

`, `pods is forbidden`},
		"an environment of conda": {1, `EnvironmentNameNotFound: Could not find conda environment: train
You can list all discoverable environments with ` + "`conda info --envs`" + `.

` + module + `ModuleNotFoundError: No module named 'torch'
`, `Could not find conda environment: train`},
		// Siblings: other libraries and tools.
		"a data set that is not there": {1, `Traceback (most recent call last):
  File "/v/site-packages/httpx/_models.py", line 829, in raise_for_status
    raise HTTPStatusError(message, request=request, response=self)
httpx.HTTPStatusError: Client error '404 Not Found' for url 'https://hub.acme.dev/api/datasets/orders-v3'

The above exception was the direct cause of the following exception:

` + module + `  File "/v/site-packages/datasets/load.py", line 1030, in dataset_module_factory
    raise DatasetNotFoundError(
datasets.exceptions.DatasetNotFoundError: Dataset 'acme/orders-v3' doesn't exist on the Hub or cannot be accessed.
`, `Dataset 'acme/orders-v3' doesn't exist`},
		"a registry of models": {1, `Traceback (most recent call last):
  File "/usr/lib/python3.11/urllib/request.py", line 643, in http_error_default
    raise HTTPError(req.full_url, code, msg, hdrs, fp)
urllib.error.HTTPError: HTTP Error 403: Forbidden

The above exception was the direct cause of the following exception:

` + module + `  File "/v/site-packages/registry/client.py", line 71, in fetch
    raise RegistryError(f"no right to read {name}") from e
registry.errors.RegistryError: no right to read churn-xgb/17
`, `no right to read churn-xgb/17`},
		"an answer to aiohttp": {1, `Traceback (most recent call last):
  File "/v/site-packages/aiohttp/client_reqrep.py", line 1060, in raise_for_status
    raise ClientResponseError(
aiohttp.client_exceptions.ClientResponseError: 429, message='Too Many Requests', url=URL('http://llm:8000/v1')

The above exception was the direct cause of the following exception:

` + module + `  File "/v/site-packages/llmclient/errors.py", line 12, in check
    raise QuotaExceeded(quota)
llmclient.errors.QuotaExceeded: 60 requests a minute are allowed to team search
`, `60 requests a minute are allowed to team search`},
		"no repository": {2, `Cloning into 'trainer'...
fatal: repository 'https://git.acme.dev/ml/trainer.git/' not found
python: can't open file '/home/ray/trainer/main.py': [Errno 2] No such file or directory
`, `main\.py.*repository 'https://git\.acme\.dev/ml/trainer\.git/' not found`},
		"no archive": {1, `unzip:  cannot find or open /mnt/releases/app-7.zip, /mnt/releases/app-7.zip.zip or /mnt/releases/app-7.zip.ZIP.
/home/ray/anaconda3/bin/python: No module named scorer
`, `cannot find or open /mnt/releases/app-7\.zip`},
		"no rights on a bucket of Google": {2, `Copying gs://acme-jobs/run.sh...
ServiceException: 401 Anonymous caller does not have storage.objects.get access to the Google Cloud Storage object.
sh: 0: cannot open run.sh: No such file
`, `401 Anonymous caller does not have storage\.objects\.get`},
		"a conflict in Kubernetes": {1, module + `kubernetes.client.exceptions.ApiException: (409)
Reason: Conflict
HTTP response headers: HTTPHeaderDict({'Audit-Id': '1b2c', 'Cache-Control': 'no-cache, private', ` +
			`'Content-Type': 'application/json', 'X-Content-Type-Options': 'nosniff', 'Content-Length': '285'})
HTTP response body: {"kind":"Status","apiVersion":"v1","message":"services \"llm\" already exists","code":409}
`, `services .*llm.* already exists`},
	} {
		t.Run(name, func(t *testing.T) {
			_, chain := badJob(t, submissionWithLog(t, c.code, strings.TrimPrefix(c.log, "\n")))
			says.True(t, regexp.MustCompile(c.title).MatchString(chain[0].Title), chain[0].Title)
		})
	}
}

// TestNotLetIn: of a service that did not accept who asked the title also tells what had been said of it before; of
// other refusals it does not.
func TestNotLetIn(t *testing.T) {
	const untrusted = "using the token of yesterday: <urlopen error [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed>"
	const role = "could not assume role ray-writer: sts.acme did not answer"
	for name, c := range map[string]struct{ printed, raised, before string }{
		"HTTP":     {untrusted, "urllib.error.HTTPError: HTTP Error 401: Unauthorized", untrusted},
		"a cloud":  {role, "botocore.exceptions.ClientError: An error occurred (ExpiredToken) when calling PutObject: The provided token has expired.", role},
		"a login":  {role, "acme.DbError: password of ray-writer is incorrect", role},
		"a right":  {role, "botocore.exceptions.ClientError: An error occurred (AccessDenied) when calling PutObject: denied by a policy", ""},
		"a server": {"token is renewed", "urllib.error.HTTPError: HTTP Error 401: Unauthorized", ""},
	} {
		failed := failedTask(1, "put", "TASK_EXECUTION_EXCEPTION", "User exception:\nTraceback (most recent call last):\n  File \"/app/a.py\", line 2, in put\n"+c.raised)
		log := "\x1b[36m(Tokens pid=7)\x1b[0m " + c.printed + "\n" + trace("ray.exceptions.RayTaskError: \x1b[36mray::put()\x1b[39m (pid=8, ip=10.0.0.1)\n  File \"/app/a.py\", line 2, in put\n"+c.raised)
		_, chain := badJob(t, submissionWithLog(t, 1, log, append(failed, driverOf(1, "raysubmit_bad"))...))
		_, before, _ := strings.Cut(chain[len(chain)-1].Title, "; before that Tokens printed: ")
		says.True(t, len(chain) == 2 && before == c.before, "%s: %+v, want %q", name, chain[len(chain)-1].Title,
			c.before)
	}
}

// TestLacksSome: behind a program's words that it has fewer than it should, what a worker printed of something left out
// is told, in words that are no error; behind other words with figures it is not.
func TestLacksSome(t *testing.T) {
	for name, c := range map[string]struct {
		log, printed string
		told         bool
	}{
		"prompts":    {trace("AssertionError: 5 answers for 8 prompts"), "request 7: prompt of 7000 tokens is longer than max_model_len of 4096", true},
		"rows":       {trace("RuntimeError: 118 rows written, 120 read"), "row 7 skipped: amount is empty", true},
		"partitions": {"loaded 3 partitions, expected 4\n", "2026-11-03: no file, going on without it", true},
		"many":       {trace("AssertionError: 999,118 rows instead of 1,000,000"), "12 records dropped", true},
		"progress":   {trace("AssertionError: 5 answers for 8 prompts"), "request 7 is done", false},
		"a figure":   {trace("AssertionError: p99 is 2.4 s, above 1.5 s"), "row 7 skipped: amount is empty", false},
		"a step":     {trace("RuntimeError: diverged at step 300"), "row 7 skipped: amount is empty", false},
		"a mistake":  {trace("IndexError: index 8 is out of bounds for axis 0 with size 5"), "row 7 skipped: amount is empty", false},
	} {
		_, chain := badJob(t, submissionWithLog(t, 1, "\x1b[36m(generate pid=7)\x1b[0m "+c.printed+"\n"+c.log, driverOf(1, "raysubmit_bad")))
		says.Equal(t, strings.HasSuffix(chain[0].Title, "; before that generate printed: "+c.printed), c.told, "%s: %s",
			name, chain[0].Title)
	}
}
