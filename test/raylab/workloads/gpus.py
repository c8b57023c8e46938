"""Metrics of GPUs that there are none of, under the names and labels of Ray's reporter, so that the panels about GPUs have something to draw."""

import sys
import time

import ray
from ray.util.metrics import Gauge

ray.init(address="auto", log_to_driver=False)
LABELS = ("ip", "RayNodeType", "GpuIndex", "GpuDeviceName")


@ray.remote(num_cpus=0)
class Reporter:
    def report(self, seconds):
        names = ("gpus_utilization", "gram_used", "gram_available", "gpus_available", "gpu_power_milliwatts", "gpu_temperature_celsius")
        gauges = [Gauge(f"node_{name}", tag_keys=LABELS) for name in names]
        ip, end, i = ray.util.get_node_ip_address(), time.time() + seconds, 0
        while time.time() < end:
            i += 1
            for index in range(2):
                labels = {"ip": ip, "RayNodeType": "worker", "GpuIndex": str(index), "GpuDeviceName": "NVIDIA H100"}
                for value, gauge in zip(((17 * i + index) % 101, 1000 + 10 * i, 80000 - 10 * i, 1, 300000 + i, 40 + i % 30), gauges):
                    gauge.set(value, labels)
            time.sleep(2)


ray.get(Reporter.remote().report.remote(float(sys.argv[1])))
