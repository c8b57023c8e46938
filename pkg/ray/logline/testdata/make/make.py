"""make.py OUT: prints a line of each level with each library that is installed, and writes them as JSON.
Of a form: library with its version, time (full, year: the year is left out, clock: a time of day, minute: the same without seconds, or none), and lines: level, the seconds between which it was printed, and the line.
    python3 -m venv v && v/bin/pip install loguru structlog python-json-logger absl-py uvicorn gunicorn rich opentelemetry-sdk ecs-logging google-cloud-logging \
        coloredlogs logfmter transformers accelerate datasets distributed jax xgboost-cpu lightgbm tensorflow-cpu ray[serve]
    npm i pino bunyan winston       (NODE_PATH)
    libslf4j-java, liblogback-java, liblog4j2-java of Debian      (CLASSPATH; java 17 runs Forms.java)
    go run . in forms-go, with a go.mod of log/slog, zap, zerolog, logrus, klog      (GO_FORMS is the program)
"""
import importlib.metadata, json, os, re, subprocess, sys, time

here = os.path.dirname(os.path.abspath(__file__))
LEVELS = ["debug", "info", "warning", "error", "critical"]
CALLS = "\nfor l in ['debug','info','warning','error','critical']: getattr(log, l)('needle ' + l)\n"
BASIC = "import logging; logging.basicConfig(level=1, format=%r, datefmt=%r); log = logging.getLogger(%r)" + CALLS


def basic(fmt, datefmt=None, name="train"):
    return BASIC % (fmt, datefmt, name)


FORMS = [  # form, distribution, time, program
    ("logging: default", None, "none", "import logging; logging.basicConfig(level=1); log = logging.getLogger()" + CALLS),
    ("logging: time, name, level", None, "full", basic("%(asctime)s - %(name)s - %(levelname)s - %(message)s")),
    ("logging: time, level", None, "full", basic("%(asctime)s %(levelname)s %(message)s")),
    ("logging: time, name and level with spaces", None, "full", basic("%(asctime)s %(name)s %(levelname)s %(message)s")),
    ("logging: in brackets", None, "full", basic("[%(asctime)s] [%(levelname)s] %(message)s")),
    ("logging: level, place", None, "none", basic("%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s")),
    ("logging: aligned to the right", None, "none", basic("%(levelname)8s %(message)s")),
    ("multiprocessing", None, "none", "import multiprocessing as m; log = m.log_to_stderr(); log.setLevel(1)" + CALLS),
    ("hydra", None, "full", basic("[%(asctime)s][%(name)s][%(levelname)s] - %(message)s")),
    ("celery", None, "full", basic("[%(asctime)s: %(levelname)s/%(processName)s] %(message)s")),
    ("airflow", None, "full", basic("[%(asctime)s] {%(filename)s:%(lineno)d} %(levelname)s - %(message)s", "%Y-%m-%dT%H:%M:%S%z")),
    ("examples of accelerate", None, "full", basic("%(asctime)s - %(levelname)s - %(name)s - %(message)s", "%m/%d/%Y %H:%M:%S")),
    ("mlflow", None, "full", basic("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y/%m/%d %H:%M:%S")),
    ("mmengine", None, "year", basic("%(asctime)s - %(name)s - %(levelname)s - %(message)s", "%m/%d %H:%M:%S")),
    ("fairseq", None, "full", basic("%(asctime)s | %(levelname)s | %(name)s | %(message)s", "%Y-%m-%d %H:%M:%S")),
    ("deepspeed", None, "full", basic("[%(asctime)s] [%(levelname)s] [%(filename)s:%(lineno)d:%(funcName)s] %(message)s")),
    ("vLLM", None, "year", basic("%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s", "%m-%d %H:%M:%S")),
    ("vLLM: of a process", None, "year", basic("(EngineCore pid=123) %(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s", "%m-%d %H:%M:%S")),
    ("torch.distributed", None, "year", """
import logging, datetime, sys
class F(logging.Formatter):  # as torch/_logging/_internal.py has it
    def format(self, r):
        t = datetime.datetime.fromtimestamp(r.created)
        return f'{r.levelname[0]}{t:%m%d %H:%M:%S.%f} {r.process} torch/distributed/run.py:123] {r.getMessage()}'
h = logging.StreamHandler(); h.setFormatter(F()); log = logging.getLogger('torch'); log.addHandler(h); log.setLevel(1)""" + CALLS),
    ("loguru", "loguru", "full", "from loguru import logger as log" + CALLS),
    ("loguru: colours", "loguru", "full", "import sys; from loguru import logger as log; log.remove(); log.add(sys.stderr, colorize=True, level=0)" + CALLS),
    ("loguru: serialize", "loguru", "full", "import sys; from loguru import logger as log; log.remove(); log.add(sys.stderr, serialize=True, level=0)" + CALLS),
    ("structlog: console", "structlog", "full", "import structlog; log = structlog.get_logger()" + CALLS),
    ("structlog: JSON", "structlog", "full", "import structlog as s; s.configure(processors=[s.processors.add_log_level, s.processors.TimeStamper(fmt='iso'), s.processors.JSONRenderer()]); log = s.get_logger()" + CALLS),
    ("structlog: logfmt", "structlog", "full", "import structlog as s; s.configure(processors=[s.processors.add_log_level, s.processors.TimeStamper(fmt='iso'), s.processors.LogfmtRenderer(key_order=['timestamp','level'])]); log = s.get_logger()" + CALLS),
    ("python-json-logger", "python-json-logger", "full", """
import logging
from pythonjsonlogger.json import JsonFormatter
h = logging.StreamHandler(); h.setFormatter(JsonFormatter('%(message)s %(asctime)s %(levelname)s %(name)s')); log = logging.getLogger('x'); log.addHandler(h); log.setLevel(1)
for l in ['debug','info','warning','error','critical']: getattr(log, l)('needle ' + l + ' x' * 300)"""),
    ("logfmter", "logfmter", "full", "import logging; from logfmter import Logfmter; h = logging.StreamHandler(); h.setFormatter(Logfmter(keys=['time','level'], mapping={'time':'asctime','level':'levelname'})); logging.basicConfig(level=1, handlers=[h]); log = logging.getLogger()" + CALLS),
    ("absl", "absl-py", "year", "from absl import logging as log; log.use_absl_handler(); log.set_verbosity(1); log.set_stderrthreshold('debug'); log = log.get_absl_logger()" + CALLS.replace("'debug',", "")),
    ("uvicorn", "uvicorn", "none", "import logging.config, uvicorn.config; logging.config.dictConfig(uvicorn.config.LOGGING_CONFIG); log = logging.getLogger('uvicorn.error'); log.setLevel(1)" + CALLS),
    ("gunicorn", "gunicorn", "full", "from gunicorn.glogging import Logger; from gunicorn.config import Config; c = Config(); c.set('loglevel','debug'); log = Logger(c)" + CALLS),
    ("rich", "rich", "full", "import logging; from rich.logging import RichHandler; from rich.console import Console; logging.basicConfig(level=1, format='%(message)s', handlers=[RichHandler(console=Console(width=100), omit_repeated_times=False)]); log = logging.getLogger()" + CALLS),
    ("rich: in the same second", "rich", "none", "import logging; from rich.logging import RichHandler; from rich.console import Console; logging.basicConfig(level=1, format='%(message)s', handlers=[RichHandler(console=Console(width=100))]); log = logging.getLogger(); log.info('first')" + CALLS),
    ("coloredlogs", "coloredlogs", "full", "import logging, coloredlogs; log = logging.getLogger('x'); coloredlogs.install(level=1, isatty=True)" + CALLS),
    ("OpenTelemetry: console", "opentelemetry-sdk", "full", """
import logging
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
try: from opentelemetry.sdk._logs.export import ConsoleLogRecordExporter as E
except ImportError: from opentelemetry.sdk._logs.export import ConsoleLogExporter as E
p = LoggerProvider(); p.add_log_record_processor(SimpleLogRecordProcessor(E())); logging.basicConfig(level=1, handlers=[LoggingHandler(logger_provider=p)]); log = logging.getLogger()""" + CALLS),
    ("ECS", "ecs-logging", "full", "import logging, ecs_logging; h = logging.StreamHandler(); h.setFormatter(ecs_logging.StdlibFormatter()); logging.basicConfig(level=1, handlers=[h]); log = logging.getLogger()" + CALLS),
    ("Google Cloud", "google-cloud-logging", "none", "import logging; from google.cloud.logging_v2.handlers import StructuredLogHandler as H; logging.basicConfig(level=1, handlers=[H(project_id='p')]); log = logging.getLogger()" + CALLS),
    ("transformers: explicit", "transformers", "full", "import warnings; warnings.simplefilter('ignore'); from transformers.utils import logging as l; l.set_verbosity_debug(); l.enable_explicit_format(); log = l.get_logger('transformers.x')" + CALLS),
    ("dask", "distributed", "full", "import logging, distributed; log = logging.getLogger('distributed.worker'); log.setLevel(1)" + CALLS),
    ("jax", "jax", "full", "import logging, jax; log = logging.getLogger('jax._src.x'); jax.config.update('jax_logging_level', 'DEBUG')" + CALLS),
    ("xgboost", "xgboost-cpu", "none", "import warnings; warnings.simplefilter('always'); import xgboost as x, numpy as n; x.train({'needle_warning': 1, 'verbosity': 3}, x.DMatrix(n.ones((4,1)), n.ones(4)), 1)"),
    ("lightgbm", "lightgbm", "none", "import lightgbm as l, numpy as n; l.train({'needle_warning': 1, 'verbosity': 2}, l.Dataset(n.ones((4,1)), n.ones(4)), 1)"),
    ("warnings", None, "none", "import warnings; warnings.simplefilter('always'); warnings.warn('needle warning')"),
    ("TensorFlow: Python", "tensorflow-cpu", "none", "import tensorflow as t, logging; log = t.get_logger(); log.setLevel(1); log.propagate = False" + CALLS),
    ("TensorFlow: C++", "tensorflow-cpu", "full", "import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''; import tensorflow"),
    ("Ray: Python", "ray", "full", "import logging, ray; from ray._private.ray_logging import setup_logger; from ray._private import ray_constants as c; setup_logger('debug', c.LOGGER_FORMAT); log = logging.getLogger('ray.x')" + CALLS),
    ("Ray: JSON", "ray", "full", "import logging; from ray._common.formatters import JSONFormatter; h = logging.StreamHandler(); h.setFormatter(JSONFormatter()); logging.basicConfig(level=1, handlers=[h]); log = logging.getLogger('x')" + CALLS),
    ("Ray: text with context", "ray", "full", "import logging; from ray._common.formatters import TextFormatter; h = logging.StreamHandler(); h.setFormatter(TextFormatter()); logging.basicConfig(level=1, handlers=[h]); log = logging.getLogger('x')" + CALLS),
    ("Ray Serve: text", "ray", "full", "import logging; from ray.serve._private.logging_utils import ServeFormatter; h = logging.StreamHandler(); h.setFormatter(ServeFormatter('controller', '123')); log = logging.getLogger('x'); log.addHandler(h); log.setLevel(1)" + CALLS),
]
OTHERS = [  # programs of other languages print "form|time" before their lines
    ["node", here + "/forms.js"],
    ["java", here + "/Forms.java"],
    [os.environ.get("GO_FORMS", "")],
]
WORDS = {"critical": "fatal", "warn": "warning", "severe": "error", "fatal": "fatal", "trace": "debug", "fine": "debug"}
PLACES = re.compile(re.escape(os.path.dirname(sys.executable)[: -len("/bin")]) + "|" + re.escape(here))


def lines_of(text, form, since, until):
    lines = []
    whole = text
    if form.startswith("OpenTelemetry"):  # an object has several lines
        text = text.replace("\n}\n{", "\n}\x00{").replace("\n}\n", "\n}\x00")
    for line in text.split("\x00" if form.startswith("OpenTelemetry") else "\n"):
        m = re.search(r"needle[ _](\w+)", line)
        level = m and m[1]
        if form == "xgboost":
            m = re.search(r"UserWarning: \[\S+\] (WARNING): ", line)
            level = m and "warning"
        if form == "TensorFlow: C++":
            m = re.match(r"\S+ \S+: ([IWEF]) |([IWEF])0000 ", line)
            level = m and {"I": "info", "W": "warning", "E": "error", "F": "fatal"}[m[1] or m[2]]
        if level and not any(l["level"] == WORDS.get(level, level) for l in lines):
            lines.append({"level": WORDS.get(level, level), "since": since, "until": until, "line": PLACES.sub("/v", line)})
    return lines


def run(args, **env):
    since = int(time.time())
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "TZ": "UTC", "PYTHONWARNINGS": "ignore", **env})
    return p.stdout.decode(), since, int(time.time()) + 1


def main(out):
    forms = []

    def add(form, library, told, text, since, until):
        lines = lines_of(text, form, since, until)
        print(form, library, len(lines), file=sys.stderr)
        if lines:
            forms.append({"form": form, "library": library, "time": told, "lines": lines})
        else:
            print(text[-600:], file=sys.stderr)

    for form, dist, told, program in FORMS:
        try:
            library = f"{dist} {importlib.metadata.version(dist)}" if dist else "Python " + sys.version.split()[0]
        except importlib.metadata.PackageNotFoundError:
            print("not installed:", dist, file=sys.stderr)
            continue
        add(form, library, told, *run([sys.executable, "-c", program]))
    for args in OTHERS:
        if not args[0]:
            continue
        text, since, until = run(args)
        for part in text.split("\x01")[1:]:
            head, _, body = part.partition("\n")
            form, library, told = head.split("|")
            add(form, library, told, body, since, until)
    with open(out, "w") as f:  # a line of the file for each line
        text = ",\n".join(json.dumps({**form, "lines": []}, ensure_ascii=False)[:-2] + "\n " + ",\n ".join(json.dumps(l, ensure_ascii=False) for l in form["lines"]) + "\n]}" for form in forms)
        f.write("[\n" + text + "\n]\n")


main(sys.argv[1])
