"""A DAG of Airflow that makes a RayJob. The label is all that the history needs: the webhook adds the collector."""

from airflow.providers.cncf.kubernetes.operators.resource import KubernetesCreateResourceOperator
from airflow.sdk import dag
from pendulum import datetime

RAYJOB = """
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: nightly-{{ ts_nodash | lower }}
  labels:
    ray.io/history: "true"
    dag: nightly
spec:
  entrypoint: python nightly.py
  shutdownAfterJobFinishes: true
  ttlSecondsAfterFinished: 60
  rayClusterSpec:
    headGroupSpec:
      rayStartParams: {}
      template:
        spec:
          containers:
          - name: ray-head
            image: rayproject/ray:2.60.0
"""


@dag(schedule="@daily", start_date=datetime(2026, 11, 1), catchup=False)
def nightly():
    KubernetesCreateResourceOperator(
        task_id="rayjob", yaml_conf=RAYJOB, namespaced=True, custom_resource_definition=True
    )


nightly()
