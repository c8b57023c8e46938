package eventjson

import (
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// submissionDefinition reads a SubmissionJobDefinitionEvent.
func (d *Decoder) submissionDefinition(c *cursor) subject {
	s := &d.scratch.Submission
	message(c, func(field string) {
		switch field {
		case "submissionId":
			s.ID = d.str(c)
		case "entrypoint":
			s.Entrypoint = d.str(c)
		case "config":
			s.RuntimeEnv, s.Metadata = d.config(c)
		case "entrypointResources":
			message(c, func(field string) {
				switch field {
				case "numCpus":
					s.NumCPUs = c.finite()
				case "numGpus":
					s.NumGPUs = c.finite()
				case "memory":
					s.Memory = c.integer()
				case "customResources":
					s.Resources = numberMap(c)
				}
			})
		}
	})
	return identified(s.ID)
}

// submissionLifecycle reads a SubmissionJobLifecycleEvent.
func (d *Decoder) submissionLifecycle(c *cursor) subject {
	s := &d.scratch.Submission
	lifecycle(c, "submissionId", func() { s.ID = d.str(c) }, &s.Transitions, d.submissionTransition)
	return identified(s.ID)
}

// submissionTransition reads one change of a submission's status.
func (d *Decoder) submissionTransition(c *cursor) (t entities.SubmissionTransition) {
	message(c, func(field string) {
		switch field {
		case "state":
			t.State = d.name(c)
		case "timestamp":
			t.Time = d.timeOf(c)
		case "message":
			t.Message = d.str(c)
		case "errorType":
			t.ErrorType = d.str(c)
		case "driverNodeId":
			t.DriverNode = readID[rayid.Node](c)
		case "driverAgentHttpAddress":
			t.AgentAddress = d.str(c)
		case "driverExitCode":
			raw := c.value()
			t.HasExitCode = raw != nil
			t.ExitCode = int32((&cursor{b: raw, whole: true}).integer())
		}
	})
	return t
}

// workerDefinition reads a WorkerDefinitionEvent.
func (d *Decoder) workerDefinition(c *cursor) subject {
	w := &d.scratch.Worker
	message(c, func(field string) {
		switch field {
		case "workerId":
			w.ID = readID[rayid.Worker](c)
		case "nodeId":
			w.Node = readID[rayid.Node](c)
		case "workerType":
			w.Type = d.name(c)
		case "pid":
			w.PID = uint32(c.integer())
		}
	})
	return identified(w.ID)
}

// workerLifecycle reads a WorkerLifecycleEvent.
func (d *Decoder) workerLifecycle(c *cursor) subject {
	w := &d.scratch.Worker
	message(c, func(field string) {
		switch field {
		case "workerId":
			w.ID = readID[rayid.Worker](c)
		case "jobId":
			w.Job = readID[rayid.Job](c)
		case "stateTransitions":
			transitions(c, func() { w.Transitions = append(w.Transitions, d.workerTransition(c)) })
		}
	})
	return identified(w.ID)
}

// workerTransition reads one change of a worker's state.
func (d *Decoder) workerTransition(c *cursor) (t entities.WorkerTransition) {
	message(c, func(field string) {
		switch field {
		case "state":
			t.State = d.name(c)
		case "timestamp":
			t.Time = d.timeOf(c)
		case "workerLaunchTimeMs":
			t.LaunchMs = uint64(c.integer())
		case "workerLaunchedTimeMs":
			t.LaunchedMs = uint64(c.integer())
		case "startTimeMs":
			t.StartMs = uint64(c.integer())
		case "endTimeMs":
			t.EndMs = uint64(c.integer())
		case "deathInfo":
			message(c, func(field string) {
				switch field {
				case "exitType":
					t.ExitType = d.name(c)
				case "exitDetail":
					t.ExitDetail = d.str(c)
				}
			})
		}
	})
	return t
}

// groupDefinition reads a PlacementGroupDefinitionEvent.
func (d *Decoder) groupDefinition(c *cursor) subject {
	g := &d.scratch.Group
	message(c, func(field string) {
		switch field {
		case "placementGroupId":
			g.ID = readID[rayid.PlacementGroup](c)
		case "name":
			g.Name = d.str(c)
		case "rayNamespace":
			g.Namespace = d.str(c)
		case "strategy":
			g.Strategy = d.name(c)
		case "isDetached":
			g.Detached = c.boolean()
		case "creatorJobId":
			g.CreatorJob = readID[rayid.Job](c)
		case "creatorActorId":
			g.CreatorActor = readID[rayid.Actor](c)
		case "creationRequestReceivedNs":
			g.Created = max(0, c.integer())
		case "bundles":
			transitions(c, func() { g.Bundles = append(g.Bundles, bundle(c)) })
		}
	})
	return identified(g.ID)
}

// bundle reads one bundle of a placement group.
func bundle(c *cursor) (b entities.Bundle) {
	message(c, func(field string) {
		switch field {
		case "bundleIndex":
			b.Index = int32(c.integer())
		case "unitResources":
			b.Resources = numberMap(c)
		case "labelSelector":
			b.LabelSelector = stringMap(c)
		}
	})
	return b
}

// groupLifecycle reads a PlacementGroupLifecycleEvent.
func (d *Decoder) groupLifecycle(c *cursor) subject {
	g := &d.scratch.Group
	lifecycle(c, "placementGroupId", func() { g.ID = readID[rayid.PlacementGroup](c) }, &g.Transitions,
		d.groupTransition)
	return identified(g.ID)
}

// groupTransition reads one change of a placement group's state.
func (d *Decoder) groupTransition(c *cursor) (t entities.PlacementGroupTransition) {
	message(c, func(field string) {
		switch field {
		case "state":
			t.State = d.name(c)
		case "schedulingState":
			t.SchedulingState = d.name(c)
		case "timestamp":
			t.Time = d.timeOf(c)
		case "schedulingAttempt":
			t.Attempt = uint32(c.integer())
		case "highestRetryDelayMs":
			t.RetryDelayMs = c.finite()
		case "bundlePlacements":
			transitions(c, func() {
				var index int32
				var node rayid.Node
				message(c, func(field string) {
					switch field {
					case "bundleIndex":
						index = int32(c.integer())
					case "nodeId":
						node = readID[rayid.Node](c)
					}
				})
				if t.Placements == nil {
					t.Placements = make(map[int32]rayid.Node)
				}
				t.Placements[index] = node
			})
		}
	})
	return t
}
