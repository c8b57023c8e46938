package eventjson

import (
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

func (d *Decoder) submissionDefinition(c *cursor) subject {
	s := &d.scratch.Submission
	fields(c, func(key string) {
		switch key {
		case "submissionId", "submission_id":
			s.ID = d.str(c)
		case "entrypoint":
			s.Entrypoint = d.str(c)
		case "config":
			s.RuntimeEnv, s.Metadata = d.config(c)
		case "entrypointResources", "entrypoint_resources":
			fields(c, func(key string) {
				switch key {
				case "numCpus", "num_cpus":
					s.NumCPUs = c.finite()
				case "numGpus", "num_gpus":
					s.NumGPUs = c.finite()
				case "memory":
					s.Memory = c.integer()
				case "customResources", "custom_resources":
					s.Resources = numberMap(c)
				default:
					c.skip()
				}
			})
		default:
			c.skip()
		}
	})
	return identified(s.ID)
}

func (d *Decoder) submissionLifecycle(c *cursor) subject {
	s := &d.scratch.Submission
	fields(c, func(key string) {
		switch key {
		case "submissionId", "submission_id":
			s.ID = d.str(c)
		case "stateTransitions", "state_transitions":
			transitions(c, func() { s.Transitions = append(s.Transitions, d.submissionTransition(c)) })
		default:
			c.skip()
		}
	})
	return identified(s.ID)
}

func (d *Decoder) submissionTransition(c *cursor) (t entities.SubmissionTransition) {
	fields(c, func(key string) {
		switch key {
		case "state":
			t.State = d.name(c)
		case "timestamp":
			t.Time = d.timeOf(c)
		case "message":
			t.Message = d.str(c)
		case "errorType", "error_type":
			t.ErrorType = d.str(c)
		case "driverNodeId", "driver_node_id":
			t.DriverNode = readID[rayid.Node](c)
		case "driverAgentHttpAddress", "driver_agent_http_address":
			t.AgentAddress = d.str(c)
		case "driverExitCode", "driver_exit_code":
			raw := c.value()
			t.HasExitCode = raw != nil
			t.ExitCode = int32((&cursor{b: raw, whole: true}).integer())
		default:
			c.skip()
		}
	})
	return t
}

func (d *Decoder) workerDefinition(c *cursor) subject {
	w := &d.scratch.Worker
	fields(c, func(key string) {
		switch key {
		case "workerId", "worker_id":
			w.ID = readID[rayid.Worker](c)
		case "nodeId", "node_id":
			w.Node = readID[rayid.Node](c)
		case "workerType", "worker_type":
			w.Type = d.name(c)
		case "pid":
			w.PID = uint32(c.integer())
		default:
			c.skip()
		}
	})
	return identified(w.ID)
}

func (d *Decoder) workerLifecycle(c *cursor) subject {
	w := &d.scratch.Worker
	fields(c, func(key string) {
		switch key {
		case "workerId", "worker_id":
			w.ID = readID[rayid.Worker](c)
		case "jobId", "job_id":
			w.Job = readID[rayid.Job](c)
		case "stateTransitions", "state_transitions":
			transitions(c, func() { w.Transitions = append(w.Transitions, d.workerTransition(c)) })
		default:
			c.skip()
		}
	})
	return identified(w.ID)
}

func (d *Decoder) workerTransition(c *cursor) (t entities.WorkerTransition) {
	fields(c, func(key string) {
		switch key {
		case "state":
			t.State = d.name(c)
		case "timestamp":
			t.Time = d.timeOf(c)
		case "workerLaunchTimeMs", "worker_launch_time_ms":
			t.LaunchMs = uint64(c.integer())
		case "workerLaunchedTimeMs", "worker_launched_time_ms":
			t.LaunchedMs = uint64(c.integer())
		case "startTimeMs", "start_time_ms":
			t.StartMs = uint64(c.integer())
		case "endTimeMs", "end_time_ms":
			t.EndMs = uint64(c.integer())
		case "deathInfo", "death_info":
			fields(c, func(key string) {
				switch key {
				case "exitType", "exit_type":
					t.ExitType = d.name(c)
				case "exitDetail", "exit_detail":
					t.ExitDetail = d.str(c)
				default:
					c.skip()
				}
			})
		default:
			c.skip()
		}
	})
	return t
}

func (d *Decoder) groupDefinition(c *cursor) subject {
	g := &d.scratch.Group
	fields(c, func(key string) {
		switch key {
		case "placementGroupId", "placement_group_id":
			g.ID = readID[rayid.PlacementGroup](c)
		case "name":
			g.Name = d.str(c)
		case "rayNamespace", "ray_namespace":
			g.Namespace = d.str(c)
		case "strategy":
			g.Strategy = d.name(c)
		case "isDetached", "is_detached":
			g.Detached = c.boolean()
		case "creatorJobId", "creator_job_id":
			g.CreatorJob = readID[rayid.Job](c)
		case "creatorActorId", "creator_actor_id":
			g.CreatorActor = readID[rayid.Actor](c)
		case "creationRequestReceivedNs", "creation_request_received_ns":
			g.Created = max(0, c.integer())
		case "bundles":
			transitions(c, func() { g.Bundles = append(g.Bundles, bundle(c)) })
		default:
			c.skip()
		}
	})
	return identified(g.ID)
}

func bundle(c *cursor) (b entities.Bundle) {
	fields(c, func(key string) {
		switch key {
		case "bundleIndex", "bundle_index":
			b.Index = int32(c.integer())
		case "unitResources", "unit_resources":
			b.Resources = numberMap(c)
		case "labelSelector", "label_selector":
			b.LabelSelector = stringMap(c)
		default:
			c.skip()
		}
	})
	return b
}

func (d *Decoder) groupLifecycle(c *cursor) subject {
	g := &d.scratch.Group
	fields(c, func(key string) {
		switch key {
		case "placementGroupId", "placement_group_id":
			g.ID = readID[rayid.PlacementGroup](c)
		case "stateTransitions", "state_transitions":
			transitions(c, func() { g.Transitions = append(g.Transitions, d.groupTransition(c)) })
		default:
			c.skip()
		}
	})
	return identified(g.ID)
}

func (d *Decoder) groupTransition(c *cursor) (t entities.PlacementGroupTransition) {
	fields(c, func(key string) {
		switch key {
		case "state":
			t.State = d.name(c)
		case "schedulingState", "scheduling_state":
			t.SchedulingState = d.name(c)
		case "timestamp":
			t.Time = d.timeOf(c)
		case "schedulingAttempt", "scheduling_attempt":
			t.Attempt = uint32(c.integer())
		case "highestRetryDelayMs", "highest_retry_delay_ms":
			t.RetryDelayMs = c.finite()
		case "bundlePlacements", "bundle_placements":
			transitions(c, func() {
				var index int32
				var node rayid.Node
				fields(c, func(key string) {
					switch key {
					case "bundleIndex", "bundle_index":
						index = int32(c.integer())
					case "nodeId", "node_id":
						node = readID[rayid.Node](c)
					default:
						c.skip()
					}
				})
				if t.Placements == nil {
					t.Placements = make(map[int32]rayid.Node)
				}
				t.Placements[index] = node
			})
		default:
			c.skip()
		}
	})
	return t
}
