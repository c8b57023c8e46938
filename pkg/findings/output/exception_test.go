package output

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestExceptionOf(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Exception
	}{
		{"plain", "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    x()\nValueError: bad value 3\n", Exception{Type: "ValueError", Message: "bad value 3"}},
		{"of the memory of a GPU",
			"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    x()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which 1.10 GiB is free. Process 4121 has 70.20 GiB memory in use. Including non-PyTorch memory, this process has 7.90 GiB memory in use. Of the allocated memory 6.81 GiB is allocated by PyTorch.\n",
			Exception{Type: "OutOfMemoryError",
				Message: "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which 1.10 GiB is free. Process 4121 has 70.20 GiB memory in use."}},
		{"without a message", "Traceback (most recent call last):\n  File \"a.py\", line 1\n    assert x\nAssertionError\n", Exception{Type: "AssertionError", Code: "assert x"}},
		{"of what a program has not", "Traceback (most recent call last):\n  File \"a.py\", line 1, in fold\n    raise NotImplementedError\nNotImplementedError\n", Exception{Type: "NotImplementedError", Code: "in fold", Own: true}},
		{"of Python's own code", "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    run()\n  File \"/usr/lib/python3.11/queue.py\", line 1, in get\n    raise Empty\n_queue.Empty\n", Exception{Type: "Empty"}},
		{"of Ray's", "Traceback (most recent call last):\n  File \"/v/site-packages/ray/a.py\", line 1, in get\n    raise value\nValueError: x\n", Exception{Type: "ValueError", Message: "x"}},
		{"of a key, with what Data adds", "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    b[k]\nKeyError: 'day\\nFailed to apply UDF transform after 1/1 attempts (total backoff 0.0s).\\nTo change retry attempts …'\n",
			Exception{Type: "KeyError", Message: "'day'"}},
		{"of a key, told by another", "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    b[k]\nRuntimeError: KeyError('day\\nFailed to apply UDF f')\n",
			Exception{Type: "RuntimeError", Message: `KeyError('day\nFailed to apply UDF f')`}},
		{"of a client of HTTP", "Traceback (most recent call last):\n  File \"/app/a.py\", line 1, in <module>\n  File \"/lib/site-packages/kubernetes/rest.py\", line 1, in request\nkubernetes.client.exceptions.ApiException: (403)\nReason: Forbidden\n\n",
			Exception{Type: "ApiException", Message: "(403)", Rest: "Reason: Forbidden", Library: true}},
		{"of an object", "Traceback (most recent call last):\n  File \"/app/a.py\", line 1, in <module>\n  File \"/lib/site-packages/rayon/a.py\", line 1, in f\npandera.errors.SchemaErrors: {\n    \"price\": \"is negative\"\n}\n",
			Exception{Type: "SchemaErrors", Message: "{", Rest: "\"price\": \"is negative\" }", Library: true}},
		{"of a lost object", "Traceback (most recent call last):\n  File \"/lib/site-packages/ray/_private/worker.py\", line 1, in get\nray.exceptions.ObjectReconstructionFailedError: Failed to retrieve object 00ff01. To see information about where this ObjectRef was created in Python, set the environment variable RAY_record_ref_creation_sites=1 during `ray start` and `ray.init()`.\n\n" +
			"[OBJECT_UNRECONSTRUCTABLE_PUT] The object cannot be reconstructed because it was created by ray.put(), which has no task lineage.\n",
			Exception{Type: "ObjectReconstructionFailedError", Message: "Failed to retrieve object 00ff01. To see information about where this ObjectRef was created in Python, set the environment variable RAY_record_ref_creation_sites=1 during `ray start` and `ray.init()`.",
				Rest: "[OBJECT_UNRECONSTRUCTABLE_PUT] The object cannot be reconstructed because it was created by ray.put(), which has no task lineage."}},
		{"of Ray", "Traceback (most recent call last):\n  File \"/lib/site-packages/ray/_private/worker.py\", line 1, in get\nray.exceptions.GetTimeoutError: late\n",
			Exception{Type: "GetTimeoutError", Message: "late"}},
		{"of a program that is installed", "Traceback (most recent call last):\n  File \"/usr/local/bin/acme\", line 8, in <module>\n  File \"/lib/site-packages/acme/run.py\", line 1, in main\n" +
			"  File \"/lib/site-packages/numpy/a.py\", line 1, in apply\n  File \"/lib/site-packages/acme/stage.py\", line 2, in stage\nacme.PipelineError: stage featurise failed\n",
			Exception{Type: "PipelineError", Message: "stage featurise failed"}},
		{"of a library that such a program calls", "Traceback (most recent call last):\n  File \"<frozen runpy>\", line 198, in _run_module_as_main\n  File \"/lib/site-packages/acme/run.py\", line 1, in main\n" +
			"  File \"/lib/site-packages/botocore/client.py\", line 2, in call\nbotocore.exceptions.ClientError: denied\n",
			Exception{Type: "ClientError", Message: "denied", Library: true}},
		{"of a task that is installed", "\x1b[36mray::featurise()\x1b[39m (pid=1, ip=10.0.0.1)\n  File \"/lib/site-packages/acme/stage.py\", line 2, in stage\nacme.StageTimeoutError: late\n",
			Exception{Type: "StageTimeoutError", Message: "late", Function: "featurise"}},
		{"of a socket, passed on by a library, in a constructor", "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, httpcore.ConnectError: [Errno -3] Temporary failure in name resolution\n\n" + directCause +
			"\n\nhttpx.ConnectError: [Errno -3] Temporary failure in name resolution\n\n" + directCause +
			"\n\n\x1b[36mray::tok-0:Tokenizer.__init__()\x1b[39m (pid=1, ip=10.0.0.1)\n  File \"/app/a.py\", line 2, in __init__\n  File \"/lib/site-packages/huggingface_hub/file_download.py\", line 1, in _raise\nhuggingface_hub.errors.LocalEntryNotFoundError: cannot find the requested files in the local cache.\n",
			Exception{Type: "ConnectError", Message: "[Errno -3] Temporary failure in name resolution", Rest: "(LocalEntryNotFoundError: cannot find the requested files in the local cache.)"}},
		{"of a constructor, which Ray tells first", "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, ValueError: shard 3 is empty\n\n" + directCause +
			"\n\n\x1b[36mray::Loader.__init__()\x1b[39m (pid=1, ip=10.0.0.1)\n  File \"/app/a.py\", line 2, in __init__\nRuntimeError: cannot load\n",
			Exception{Type: "ValueError", Message: "shard 3 is empty"}},
		{"of a library, raised from another", "Traceback (most recent call last):\n  File \"/lib/site-packages/redis/connection.py\", line 1, in connect\nredis.ReadError: closed\n\n" + directCause +
			"\n\nTraceback (most recent call last):\n  File \"/app/a.py\", line 1, in <module>\nOSError: no cache\n",
			Exception{Type: "ReadError", Message: "closed", Library: true}},
		{"of a task, without frames", "ray.exceptions.RayTaskError(NotNullViolation): \x1b[36mray::insert()\x1b[39m (pid=7, ip=10.0.0.2)\npsycopg2.errors.NotNullViolation: null value in column \"price\" of relation \"orders\"\nDETAIL:  Failing row contains (7, null).\n",
			Exception{Type: "NotNullViolation", Message: "null value in column \"price\" of relation \"orders\"", Function: "insert"}},
		{"of a task, without frames and module", "ray.exceptions.RayTaskError(Stalled): ray::insert() (pid=7)\nStalled: no rows for 5 min\n",
			Exception{Type: "Stalled", Message: "no rows for 5 min", Function: "insert"}},
		{"of an argument, a generator, without a file", "User exception:\nray::count() (pid=2, ip=10.0.0.1)\n  At least one of the input arguments for this task could not be computed:\nray.exceptions.RayTaskError: ray::read_chunks() (pid=1, ip=10.0.0.1)\n    yield chunk.decode(\"utf-8\")\n          ^^^^^^\nUnicodeDecodeError: invalid continuation byte\n",
			Exception{Type: "UnicodeDecodeError", Message: "invalid continuation byte", Function: "read_chunks"}},
		{"of an argument, without frames", "  At least one of the input arguments for this task could not be computed:\nray.exceptions.RayTaskError: \x1b[36mray::Lake.rows()\x1b[39m (pid=1)\nValueError: row 7 is cut\n",
			Exception{Type: "ValueError", Message: "row 7 is cut", Function: "Lake.rows"}},
		{"of an argument of an argument", "  At least one of the input arguments for this task could not be computed:\nray.exceptions.RayTaskError: ray::b() (pid=1)\n  At least one of the input arguments for this task could not be computed:\nray.exceptions.RayTaskError: ray::a() (pid=1)\n    yield 1 / 0\nZeroDivisionError: division by zero\n",
			Exception{Type: "ZeroDivisionError", Message: "division by zero", Function: "a"}},
		{"of a task, with another one's word", "ray.exceptions.RayTaskError(NotNullViolation): ray::insert() (pid=7)\nDetail: row 7\n",
			Exception{Type: "NotNullViolation", Function: "insert"}},
		{"of a task, whose cause has no traceback", "ray.exceptions.RayTaskError(XlaRuntimeError): jax.errors.SimplifiedTraceback: For simplicity, JAX has removed its internal frames.\n\n" + directCause + "\n\nray::fit() (pid=1)\n  File \"a.py\", line 1, in fit\njaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: x\n",
			Exception{Type: "XlaRuntimeError", Message: "RESOURCE_EXHAUSTED: x", Function: "fit"}},
		{"of a socket, in a library", "Traceback (most recent call last):\n  File \"/lib/site-packages/urllib3/util/connection.py\", line 1, in create_connection\nConnectionRefusedError: [Errno 111] Connection refused\n\n" + directCause + "\n\n" +
			"Traceback (most recent call last):\n  File \"/lib/site-packages/urllib3/connection.py\", line 1, in connect\nurllib3.exceptions.NewConnectionError: <urllib3.connection.HTTPConnection object at 0x7e>: Failed to establish a new connection\n\n" + whileHandling + "\n\n" +
			"Traceback (most recent call last):\n  File \"/app/a.py\", line 1, in <module>\n  File \"/lib/site-packages/mlflow/rest.py\", line 1, in call\nmlflow.exceptions.MlflowException: API request to http://mlflow:5000/api failed\n",
			Exception{Type: "ConnectionRefusedError", Message: "[Errno 111] Connection refused", Rest: "(MlflowException: API request to http://mlflow:5000/api failed)", Library: true}},
		{"of a process, in a library", "Traceback (most recent call last):\n  File \"/usr/lib/python3.10/subprocess.py\", line 526, in run\nsubprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n\n" + directCause + "\n\n" +
			"Traceback (most recent call last):\n  File \"/app/a.py\", line 1, in <module>\n  File \"/lib/site-packages/torch/utils/cpp_extension.py\", line 1, in build\nRuntimeError: Error building extension 'fused_adam'\n",
			Exception{Type: "CalledProcessError", Message: "Command '['ninja', '-v']' returned non-zero exit status 1.", Rest: "(RuntimeError: Error building extension 'fused_adam')"}},
		{"of a network", "Traceback (most recent call last):\n  File \"/usr/lib/python3.11/ssl.py\", line 1, in read\nTimeoutError: The read operation timed out\n",
			Exception{Type: "TimeoutError", Message: "The read operation timed out", Library: true}},
		{"of a module, with a name of its own",
			"Traceback (most recent call last):\n  File \"a.py\", line 1\npkg.NoSuchShard: 17\n",
			Exception{Type: "NoSuchShard", Message: "17"}},
		{
			"nested in tasks",
			"ray.exceptions.RayTaskError(ValueError): \x1b[36mray::stage()\x1b[39m (pid=1, ip=10.0.0.1)\n  File \"a.py\", line 9, in stage\n    ^^^^\n" +
				"ray.exceptions.RayTaskError(ValueError): \x1b[36mray::parse()\x1b[39m (pid=2, ip=10.0.0.2)\n  File \"a.py\", line 3, in parse\nValueError: corrupt shard\n",
			Exception{Type: "ValueError", Message: "corrupt shard", Function: "parse"},
		},
		{
			"in a compiled graph",
			"ray.exceptions.RayTaskError(ValueError): \x1b[36mray::Stage.__ray_call__()\x1b[39m (pid=1, ip=10.0.0.1)\n" +
				"  File \"a.py\", line 3, in scale\nValueError: too large\n",
			Exception{Type: "ValueError", Message: "too large", Function: "Stage"},
		},
		{"of Java, through Py4J", "Traceback (most recent call last):\n  File \"a.py\", line 1\n" +
			"py4j.protocol.Py4JJavaError: An error occurred while calling o12.count.\n" +
			": org.apache.spark.SparkException: no shard\n\tat org.apache.spark.X.f(X.scala:1)\n",
			Exception{Type: "Py4JJavaError", Message: "An error occurred while calling o12.count.",
				Rest: "org.apache.spark.SparkException: no shard"}},
		{
			"of a task with a name of its own",
			"ray.exceptions.RayTaskError(ValueError): \x1b[36mray::stage two()\x1b[39m (pid=1, ip=10.0.0.1)\n  File \"a.py\", line 9, in outer\n" +
				"ray.exceptions.RayTaskError(ValueError): \x1b[36mray::load shard 3 (ünï)()\x1b[39m (pid=2, ip=10.0.0.2)\n  File \"a.py\", line 3, in leaf\nValueError: corrupt\n",
			Exception{Type: "ValueError", Message: "corrupt", Function: "load shard 3 (ünï)"},
		},
		{
			"raised from another",
			"ray::Map(f)->Write() (pid=1)\n  File \"a.py\", line 1\nZeroDivisionError: division by zero\n\n" +
				directCause + "\n\nray::Map(f)->Write() (pid=1)\n" +
				"  File \"b.py\", line 2\nray.exceptions.UserCodeException: UDF failed\n",
			Exception{Type: "ZeroDivisionError", Message: "division by zero", Function: "Map(f)->Write"},
		},
		{
			"of a notebook's cell, in another's message",
			"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nnbclient.exceptions.CellExecutionError: An error occurred while executing the following cell:\n" +
				"------------------\nframe.plot()\n------------------\n\n\n\x1b[0;31m-----\x1b[0m\n\x1b[0;31mKeyError\x1b[0m              Traceback (most recent call last)\n" +
				"Cell \x1b[0;32mIn[7], line 1\x1b[0m\n\x1b[0;32m----> 1\x1b[0m frame.plot()\n\x1b[0;31mKeyError\x1b[0m: 'region'\n",
			Exception{Type: "KeyError", Message: "'region'"},
		},
		{"raised while handling another", "Traceback (most recent call last):\n  x\nKeyError: 'a'\n\n" + whileHandling +
			"\n\nTraceback (most recent call last):\n  y\nOSError: b\n", Exception{Type: "OSError", Message: "b"}},
		{
			"with lines and notes after it",
			"ray::read() (pid=1)\n  File \"a.py\", line 1\n    raise e\nOSError: cannot read:\nthe header is short\nError: see the log\nWarning: shard 4 is old\n",
			Exception{Type: "OSError", Message: "cannot read:", Rest: "the header is short", Function: "read", Own: true},
		},
		{
			"with another's text in its message",
			"Traceback (most recent call last):\n  File \"a.py\", line 1\nRuntimeError: it failed:\nTraceback (most recent call last):\n  File \"b.py\", line 2\nKeyError: 'a'\n",
			Exception{Type: "KeyError", Message: "'a'"},
		},
		{
			"with a message of several lines",
			"Traceback (most recent call last):\n  File \"a.py\", line 1\nRuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.9.0\n    Python: 3.9.2\n" +
				"This process on node 10.0.0.2 was started with:\n    Ray: 2.8.1\n\n[rank0] bye\n",
			Exception{
				Type: "RuntimeError", Message: "Version mismatch: The cluster was started with:",
				Rest: "Ray: 2.9.0 Python: 3.9.2 This process on node 10.0.0.2 was started with: Ray: 2.8.1",
			},
		},
		{
			"with a first line that is empty, before lines of a log",
			"Traceback (most recent call last):\n  File \"a.py\", line 1\npkg.ConfigError: \n\n  lr: is missing\n=====\n  steps: is no number\n2026-11-20 23:19:45,581 INFO bye\n",
			Exception{Type: "ConfigError", Rest: "lr: is missing steps: is no number"},
		},
		{
			"with a colon at the end of all, in tasks",
			"ray.exceptions.RayTaskError(ValueError): ray::f() (pid=1)\n  File \"a.py\", line 9, in f\nValueError: invalid keys:\n\n" + directCause + "\n\nray::g() (pid=1)\n  File \"b.py\", line 2\nOSError: x\n",
			Exception{Type: "ValueError", Message: "invalid keys:", Function: "f"},
		},
		{"with no message and no colon",
			"Traceback (most recent call last):\n  File \"a.py\", line 1\nAssertionError\nbye\n",
			Exception{Type: "AssertionError"}},
		{
			"of pydantic", "Traceback (most recent call last):\n  File \"a.py\", line 1\npydantic_core.ValidationError: 1 validation error for Config\nreplicas\n  Input should be greater than 0\n",
			Exception{Type: "ValidationError", Message: "1 validation error for Config",
				Rest: "replicas Input should be greater than 0"},
		},
		{
			"raised from another, of whose message only the end is kept",
			") libxgboost.so(+0x5a1c10)\n\n" + directCause + "\n\nray::train() (pid=1)\n  File \"a.py\", line 1, in train\n    raise e\nTrainingError: failed\n",
			Exception{Type: "TrainingError", Message: "failed", Function: "train", Own: true},
		},
		{
			"with the reason below other lines",
			"Traceback (most recent call last):\n  File \"a.py\", line 1\nDistBackendError: unhandled system error, NCCL version 2.21.5\nncclSystemError: System call failed. \n" +
				"Last error:\nError while creating shared memory: No space left on device (28)\n",
			Exception{Type: "DistBackendError", Message: "unhandled system error, NCCL version 2.21.5",
				Rest: "Error while creating shared memory: No space left on device (28)"},
		},
		{
			"with an object in a long message",
			"Traceback (most recent call last):\n  File \"a.py\", line 1\nRuntimeError: Task <Task pending coro=<f.<locals>.run()> cb=[" + strings.Repeat("x", MaxMessage) +
				"]> got Future <Future pending> attached to a different loop\n",
			Exception{Type: "RuntimeError", Message: "Task <Task …> got Future <Future …> attached to a different loop"},
		},
		{
			"with the reason at the end of a long message",
			"Traceback (most recent call last):\n  File \"a.py\", line 1\nConnectTimeout: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /google/paligemma-3b-pt-224/resolve/main/tokenizer_config.json (Caused by " +
				"ConnectTimeoutError(<urllib3.connection.HTTPSConnection object at 0x00>, 'Connection to huggingface.co timed out.'))\"))\n",
			Exception{Type: "ConnectTimeout", Message: "(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url:…imeoutError(<urllib3.connection.HTTPSConnection …>, 'Connection to huggingface.co timed out.'))\"))"},
		},
		{"of Spark, with the cause below", "Traceback (most recent call last):\n  File \"a.py\", line 1\npy4j.protocol.Py4JJavaError: An error occurred while calling o12.count.\n: org.apache.spark.SparkException: Job aborted\n\nDriver stacktrace:\n\tat org.apache.spark.X.f(X.scala:1)\nCaused by: java.lang.OutOfMemoryError: Java heap space\n\tat java.util.A.b(A.java:2)\n",
			Exception{Type: "Py4JJavaError", Message: "An error occurred while calling o12.count.", Rest: "java.lang.OutOfMemoryError: Java heap space"}},
		{"of YAML", "Traceback (most recent call last):\n  File \"a.py\", line 1\nyaml.scanner.ScannerError: while scanning for the next token\nfound character '\\t' that cannot start any token\n  in \"c.yml\", line 8, column 1\n",
			Exception{Type: "ScannerError", Message: "while scanning for the next token", Rest: "found character '\\t' that cannot start any token in \"c.yml\", line 8, column 1"}},
		{"of a graph of TensorFlow", "Traceback (most recent call last):\n  File \"a.py\", line 1\nInvalidArgumentError: Graph execution error:\n\nDetected at node 'while/MatMul' defined at (most recent call last):\n    File \"a.py\", line 9, in <module>\n      f()\nNode: 'while/MatMul'\nMatrix size-incompatible: In[0]: [1,8]\n",
			Exception{Type: "InvalidArgumentError", Message: "Graph execution error:", Rest: "Node: 'while/MatMul' Matrix size-incompatible: In[0]: [1,8]"}},
		{"with frames behind its message", "Traceback (most recent call last):\n  File \"a.py\", line 1\nConfigError: details:\nquota of lake-7 is used up\nDefined at (most recent call last):\n    File \"b.py\", line 9, in <module>\nbye\n",
			Exception{Type: "ConfigError", Message: "details:", Rest: "quota of lake-7 is used up"}},
		{"of numpy", "Traceback (most recent call last):\n  File \"a.py\", line 1\nImportError: \n\nIMPORTANT: PLEASE READ THIS FOR ADVICE ON HOW TO SOLVE THIS ISSUE!\n\nOriginal error was: libz.so.1: cannot open\n",
			Exception{Type: "ImportError", Rest: "libz.so.1: cannot open"}},
		{"none", "all is well: nothing happened\n", Exception{}},
	} {
		says.Equal(t, ExceptionOf(c.text), c.want, "%s", c.name)
	}
}

// TestManyOpenMessages: only the message of the exception that is returned is read to its end, however many have a
// first line with a colon.
func TestManyOpenMessages(t *testing.T) {
	text := TracebackStart + "\n" + strings.Repeat("AError:\n", 20000) + "BError:\n\nlast\n"
	if got, want := ExceptionOf(text), (Exception{Type: "BError", Rest: "last"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func FuzzExceptionOf(f *testing.F) {
	f.Add("╭─ Error ─╮\n│ x │\nCaused by:\n  0: y\n  ╰─▶ z\nError in f (a.py)\n  w\n")
	f.Add("ray::f() (pid=1)\n  File\nValueError: \xff\n" + directCause + TracebackStart)
	f.Add("\x1b[36m(T.f pid=1)\x1b[0m 2 errors for S\n(T.f pid=1)   a\n(g pid=2, ip=::1) E: e\nx\n(g pid=2) Caused by:\n(raylet)  \xff")
	f.Fuzz(func(t *testing.T, text string) {
		_, said, _ := SaidByWorkers(text, "", func(class string) bool { return class == "g" }, true,
			func(line string) bool { return strings.Contains(line, "x") }, func(line string) bool { return line == "" })
		if len(said) > MaxTitle {
			t.Errorf("%d bytes were said", len(said))
		}
		_ = ExceptionOf(text).String()
		LastTraceback(text)
		_ = Excerpt(text) + Normalised(text) + FirstSentence(text)
		_ = LastWords(text) + ErrorBefore(text, text) + ToolError(text)
	})
}
