"""Writes events.jsonl: events made by hand of Ray's own protobuf classes, as JSON as Ray's aggregator agent posts them.

Run it with the Python of an environment that has ray[default]==2.60.0: python make.py > events.jsonl
"""

import json
from datetime import datetime, timezone

from ray._private.protobuf_compat import message_to_json
from ray.core.generated import (
    events_base_event_pb2 as base,
    events_node_definition_event_pb2 as node_definition,
    events_node_lifecycle_event_pb2 as node_lifecycle,
    events_placement_group_definition_event_pb2 as group_definition,
    events_placement_group_lifecycle_event_pb2 as group_lifecycle,
    events_submission_job_definition_event_pb2 as submission_definition,
    events_submission_job_lifecycle_event_pb2 as submission_lifecycle,
    platform_event_pb2 as platform,
)

SESSION = "session_2026-11-22_10-00-00_000000_1"
HEAD, WORKER = bytes([1]) * 28, bytes([2]) * 28
JOB = bytes([1, 0, 0, 0])
Event = base.RayEvent


def at(clock):
    """A time of the session's day: 10:00:00 or 10:00:00.25."""
    return datetime.fromisoformat(f"2026-11-22T{clock}+00:00").astimezone(timezone.utc)


def stamp(message, clock):
    if clock:
        message.FromDatetime(at(clock))


def emit(event_id, source, kind, clock, severity=Event.INFO, message="", session=SESSION, **payload):
    event = Event(
        event_id=event_id.encode(), source_type=source, event_type=kind, severity=severity, message=message, session_name=session, node_id=HEAD, **payload
    )
    stamp(event.timestamp, clock)
    # As AsyncHttpPublisherClient does in ray/dashboard/modules/aggregator/publisher/async_publisher_client.py.
    print(json.dumps(json.loads(message_to_json(event, always_print_fields_with_no_presence=True, preserving_proto_field_name=False))))


def transition(of, clock, **fields):
    made = of(**fields)
    stamp(made.timestamp, clock)
    return made


def kubernetes(uid, clock, kind, name, reason, message, warning=False, component="kubelet", count=0):
    """As KubernetesEventProvider and PlatformEventBuilder make it of an event of Kubernetes."""
    emit(
        uid, Event.CLUSTER_LIFECYCLE, Event.PLATFORM_EVENT, clock, Event.WARNING if warning else Event.INFO, message, session="",
        platform_event=platform.PlatformEvent(
            source=platform.Source(platform=platform.Source.KUBERNETES, component=component, metadata={"namespace": "ml", "ray_cluster_name": "lab"}),
            object_kind=kind, object_name=name, message=message, reason=reason, custom_fields={"count": str(count)} if count > 1 else {},
        ),
    )


def nodes():
    for node, host, ip in ((HEAD, "lab-head", "10.0.0.1"), (WORKER, "lab-worker-b", "10.0.0.2")):
        made = node_definition.NodeDefinitionEvent(node_id=node, node_ip_address=ip, hostname=host, node_name=ip)
        stamp(made.start_timestamp, "10:00:01")
        emit("d" + host, Event.GCS, Event.NODE_DEFINITION_EVENT, "10:00:01", node_definition_event=made)
        states = [transition(node_lifecycle.NodeLifecycleEvent.StateTransition, "10:00:01", state="ALIVE", resources={"CPU": 2})]
        if node == WORKER:
            states.append(transition(
                node_lifecycle.NodeLifecycleEvent.StateTransition, "10:20:30", state="DEAD",
                death_info=dict(
                    reason="UNEXPECTED_TERMINATION", reason_message="health check failed due to missing too many heartbeats"),
            ))
        emit("l" + host, Event.GCS, Event.NODE_LIFECYCLE_EVENT, "10:20:31",
             node_lifecycle_event=node_lifecycle.NodeLifecycleEvent(node_id=node, state_transitions=states))


def platform_events():
    short = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    kubernetes("uid-created", "09:59:50", "RayCluster", "lab", "CreatedHeadPod", "Created head Pod ml/lab-head", component="raycluster-controller")
    # A pod that was never scheduled: the event is delivered again each time it happens.
    kubernetes("uid-short-a", "10:01:00", "Pod", "lab-worker-a", "FailedScheduling", short, True, "default-scheduler")
    kubernetes("uid-short-a", "10:03:00", "Pod", "lab-worker-a", "FailedScheduling", short, True, "default-scheduler", 5)
    # A pod that was scheduled in the end, and evicted later.
    kubernetes("uid-short-b", "10:00:00.250", "Pod", "lab-worker-b", "FailedScheduling", short, True, "default-scheduler")
    kubernetes("uid-started-b", "10:00:00.500001", "Pod", "lab-worker-b", "Started", "Started container ray-worker")
    kubernetes("uid-evicted-b", "10:20:00", "Pod", "lab-worker-b", "Evicted",
               "The node was low on resource: memory. Threshold quantity: 100Mi, available: 20Mi. Container ray-worker was using 7Gi.", True)
    # A pod whose image is not there.
    kubernetes("uid-pull-c", "10:02:00", "Pod", "lab-worker-c", "Failed", 'Failed to pull image "ray:none": not found', True)
    kubernetes("uid-back-off-c", "10:04:00", "Pod", "lab-worker-c", "BackOff", 'Back-off pulling image "ray:none"', True, count=9)
    kubernetes("uid-no-time", "", "RayJob", "lab-job", "CreatedRayCluster", "Created RayCluster ml/lab", component="rayjob-controller")


def placement_groups():
    definition, lifecycle = group_definition, group_lifecycle.PlacementGroupLifecycleEvent
    for n, name, strategy in ((1, "placed", "PACK"), (2, "too-large", "STRICT_SPREAD")):
        group = bytes([n]) * 14 + JOB
        made = definition.PlacementGroupDefinitionEvent(
            placement_group_id=group, name=name, ray_namespace="ns", strategy=strategy, is_detached=n == 2, creator_job_id=JOB,
            creator_actor_id=bytes([9]) * 12 + JOB, soft_target_node_id=WORKER, creation_request_received_ns=int(at("10:05:00").timestamp()) * 10**9 + 17,
            bundles=[
                definition.BundleSpec(bundle_index=i, unit_resources={"CPU": 1.5, "GPU": float(n - 1)}, label_selector={"zone": "a"}) for i in range(2)
            ],
        )
        emit(f"pg-d{n}", Event.GCS, Event.PLACEMENT_GROUP_DEFINITION_EVENT, "10:05:00", placement_group_definition_event=made)
        states = [transition(lifecycle.StateTransition, "10:05:00", state="PENDING", scheduling_state="QUEUED")]
        if n == 1:
            placed = [lifecycle.BundlePlacement(bundle_index=0, node_id=HEAD), lifecycle.BundlePlacement(bundle_index=1, node_id=WORKER)]
            states += [
                transition(lifecycle.StateTransition, "10:05:01", state="PREPARED", scheduling_state="SCHEDULING_STARTED", scheduling_attempt=1, bundle_placements=placed),
                transition(lifecycle.StateTransition, "10:05:02", state="CREATED", scheduling_state="FINISHED", scheduling_attempt=1, bundle_placements=placed),
                transition(lifecycle.StateTransition, "10:15:00", state="REMOVED", scheduling_state="SCHEDULING_REMOVED", scheduling_attempt=1),
            ]
        else:
            states.append(transition(
                lifecycle.StateTransition, "10:05:03", state="PENDING", scheduling_state="INFEASIBLE", scheduling_attempt=3, highest_retry_delay_ms=1000.5))
        for i, state in enumerate(states):  # Ray's events of actors have one transition, or several
            emit(f"pg-l{n}{i}", Event.GCS, Event.PLACEMENT_GROUP_LIFECYCLE_EVENT, "10:15:01",
                 placement_group_lifecycle_event=lifecycle(placement_group_id=group, state_transitions=states[max(0, i - 1):i + 1]))


def submissions():
    definition, lifecycle = submission_definition.SubmissionJobDefinitionEvent, submission_lifecycle.SubmissionJobLifecycleEvent
    for name, end, code in (("raysubmit_good", "SUCCEEDED", 0), ("raysubmit_bad", "FAILED", 3), ("raysubmit_open", "", None)):
        made = definition(
            submission_id=name, entrypoint=f"python {name}.py",
            config=definition.Config(serialized_runtime_env='{"env_vars": {"SECRET": "s3cret"}, "pip": ["x"]}', metadata={"owner": "ann"}),
            entrypoint_resources=definition.EntrypointResources(num_cpus=1, num_gpus=0.5, memory=1 << 33, custom_resources={"tpu": 2}),
        )
        emit(name + "-d", Event.JOBS, Event.SUBMISSION_JOB_DEFINITION_EVENT, "10:06:00", submission_job_definition_event=made)
        states = [
            transition(lifecycle.StateTransition, "10:06:00", state="PENDING", message="Job has not started yet."),
            transition(lifecycle.StateTransition, "10:06:05", state="RUNNING", message="Job is currently running.", driver_node_id=HEAD,
                       driver_agent_http_address="http://10.0.0.1:52365"),
        ]
        if end:
            failed = end == "FAILED"
            states.append(transition(
                lifecycle.StateTransition, "10:16:00.5", state=end, driver_exit_code=code, driver_node_id=HEAD,
                driver_agent_http_address="http://10.0.0.1:52365", error_type="JOB_ENTRYPOINT_COMMAND_ERROR" if failed else "",
                message="Job entrypoint command failed with exit code 3" if failed else "Job finished successfully.",
            ))
        for i, state in enumerate(states):
            emit(f"{name}-l{i}", Event.JOBS, Event.SUBMISSION_JOB_LIFECYCLE_EVENT, "10:16:01",
                 submission_job_lifecycle_event=lifecycle(submission_id=name, state_transitions=[state]))


nodes()
platform_events()
placement_groups()
submissions()
