package eventjson

import (
	"hash/fnv"
	"math"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// entity reads the value at c if its key names an event that is not a task's; otherwise it skips it.
func (d *Decoder) entity(c *cursor) (about subject, ok bool) {
	read, kind, defines := entityReader(string(c.key))
	if read == nil || c.peek() != '{' {
		c.skip()
		return noSubject, false
	}
	// The object is found first: its text tells one event from another.
	raw := c.value()
	if c.bad {
		return noSubject, false
	}
	d.scratch = entities.Update{Kind: kind, Defines: defines, Hash: hashOf(raw)}
	in := cursor{b: raw, whole: true}
	about = read(d, &in)
	if in.bad {
		c.bad = true
	}
	return about, true
}

func entityReader(key string) (read func(*Decoder, *cursor) subject, kind entities.Kind, defines bool) {
	switch key {
	case "actorDefinitionEvent", "actor_definition_event":
		return (*Decoder).actorDefinition, entities.KindActor, true
	case "actorLifecycleEvent", "actor_lifecycle_event":
		return (*Decoder).actorLifecycle, entities.KindActor, false
	case "nodeDefinitionEvent", "node_definition_event":
		return (*Decoder).nodeDefinition, entities.KindNode, true
	case "nodeLifecycleEvent", "node_lifecycle_event":
		return (*Decoder).nodeLifecycle, entities.KindNode, false
	case "driverJobDefinitionEvent", "driver_job_definition_event":
		return (*Decoder).jobDefinition, entities.KindJob, true
	case "driverJobLifecycleEvent", "driver_job_lifecycle_event":
		return (*Decoder).jobLifecycle, entities.KindJob, false
	case "submissionJobDefinitionEvent", "submission_job_definition_event":
		return (*Decoder).submissionDefinition, entities.KindSubmission, true
	case "submissionJobLifecycleEvent", "submission_job_lifecycle_event":
		return (*Decoder).submissionLifecycle, entities.KindSubmission, false
	case "workerDefinitionEvent", "worker_definition_event":
		return (*Decoder).workerDefinition, entities.KindWorker, true
	case "workerLifecycleEvent", "worker_lifecycle_event":
		return (*Decoder).workerLifecycle, entities.KindWorker, false
	case "placementGroupDefinitionEvent", "placement_group_definition_event":
		return (*Decoder).groupDefinition, entities.KindPlacementGroup, true
	case "placementGroupLifecycleEvent", "placement_group_lifecycle_event":
		return (*Decoder).groupLifecycle, entities.KindPlacementGroup, false
	case "platformEvent", "platform_event":
		return (*Decoder).platformEvent, entities.KindPlatformEvent, true
	}
	return nil, 0, false
}

// identified returns the subject of an event in which the entity has this ID.
func identified[T comparable](id T) subject {
	if id == *new(T) {
		return unidentified
	}
	return ofEntity
}

// fields calls read for each field of the object at c; read must read or skip the value.
func fields(c *cursor, read func(key string)) {
	for c.object(); c.next(); {
		read(string(c.key))
	}
}

// str reads a string.
func (d *Decoder) str(c *cursor) string { return string(unquote(c.rawString(), nil)) }

// name reads an enumeration's value. Protobuf's JSON writes a number for a value without a known name; it stays a number.
func (d *Decoder) name(c *cursor) string { return string(unquote(c.scalar(), nil)) }

func (d *Decoder) timeOf(c *cursor) int64 { return d.time(c.scalar()) }

func readID[T rayid.ID](c *cursor) T { return idOf[T](c.rawString()) }

// stringMap reads a map of strings; nil if it is empty.
func stringMap(c *cursor) (m map[string]string) {
	fields(c, func(key string) {
		if m == nil {
			m = make(map[string]string)
		}
		m[string(unquote([]byte(key), nil))] = string(unquote(c.rawString(), nil))
	})
	return m
}

// numberMap reads a map of doubles; nil if it is empty.
func numberMap(c *cursor) (m map[string]float64) {
	fields(c, func(key string) {
		if m == nil {
			m = make(map[string]float64)
		}
		m[string(unquote([]byte(key), nil))] = c.finite()
	})
	return m
}

// finite is float for rows, which are written to an index as JSON: infinities and NaN, which JSON lacks, are 0.
func (c *cursor) finite() float64 {
	f := c.float()
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return 0
	}
	return f
}

// transitions calls read for each element of a list of objects.
func transitions(c *cursor, read func()) {
	for c.list(); c.more(); {
		read()
	}
}

func (d *Decoder) actorDefinition(c *cursor) subject {
	a := &d.scratch.Actor
	a.Defined = true
	fields(c, func(key string) {
		switch key {
		case "actorId", "actor_id":
			a.ID = readID[rayid.Actor](c)
		case "jobId", "job_id":
			a.Job = readID[rayid.Job](c)
		case "isDetached", "is_detached":
			a.Detached = c.boolean()
		case "name":
			a.Name = d.str(c)
		case "rayNamespace", "ray_namespace":
			a.Namespace = d.str(c)
		case "serializedRuntimeEnv", "serialized_runtime_env":
			a.RuntimeEnv = d.str(c)
		case "className", "class_name":
			a.Class = d.str(c)
		case "requiredResources", "required_resources":
			a.Resources = numberMap(c)
		case "placementGroupId", "placement_group_id":
			a.PlacementGroup = readID[rayid.PlacementGroup](c)
		case "labelSelector", "label_selector":
			a.LabelSelector = stringMap(c)
		case "callSite", "call_site":
			a.CallSite = d.str(c)
		case "parentId", "parent_id":
			a.Parent = parentOf(c.rawString())
		default:
			c.skip()
		}
	})
	return identified(a.ID)
}

// parentOf reads the ID of what created an actor: a task, or an actor.
func parentOf(raw []byte) []byte {
	if id := idOf[rayid.Task](raw); !id.Nil() {
		return id[:]
	}
	if id := idOf[rayid.Actor](raw); !id.Nil() {
		return id[:]
	}
	return nil
}

func (d *Decoder) actorLifecycle(c *cursor) subject {
	a := &d.scratch.Actor
	fields(c, func(key string) {
		switch key {
		case "actorId", "actor_id":
			a.ID = readID[rayid.Actor](c)
		case "stateTransitions", "state_transitions":
			transitions(c, func() { a.Transitions = append(a.Transitions, d.actorTransition(c)) })
		default:
			c.skip()
		}
	})
	return identified(a.ID)
}

func (d *Decoder) actorTransition(c *cursor) (t entities.ActorTransition) {
	fields(c, func(key string) {
		switch key {
		case "state":
			t.State = d.name(c)
		case "timestamp":
			t.Time = d.timeOf(c)
		case "nodeId", "node_id":
			t.Node = readID[rayid.Node](c)
		case "workerId", "worker_id":
			t.Worker = readID[rayid.Worker](c)
		case "reprName", "repr_name":
			t.ReprName = d.str(c)
		case "deathCause", "death_cause":
			if cause := c.value(); cause != nil {
				t.DeathCause = appendMessage(nil, &cursor{b: cause, whole: true})
			}
		case "pid":
			t.PID = uint32(c.integer())
		case "port":
			t.Port = int32(c.integer())
		case "restartReason", "restart_reason":
			t.RestartReason = d.name(c)
		default:
			c.skip()
		}
	})
	return t
}

func (d *Decoder) nodeDefinition(c *cursor) subject {
	n := &d.scratch.Node
	fields(c, func(key string) {
		switch key {
		case "nodeId", "node_id":
			n.ID = readID[rayid.Node](c)
		case "nodeIpAddress", "node_ip_address":
			n.IP = d.str(c)
		case "labels":
			n.Labels = stringMap(c)
		case "startTimestamp", "start_timestamp":
			n.Start = d.timeOf(c)
		case "hostname":
			n.Hostname = d.str(c)
		case "nodeName", "node_name":
			n.Name = d.str(c)
		case "instanceId", "instance_id":
			n.InstanceID = d.str(c)
		case "instanceTypeName", "instance_type_name":
			n.InstanceType = d.str(c)
		default:
			c.skip()
		}
	})
	return identified(n.ID)
}

func (d *Decoder) nodeLifecycle(c *cursor) subject {
	n := &d.scratch.Node
	fields(c, func(key string) {
		switch key {
		case "nodeId", "node_id":
			n.ID = readID[rayid.Node](c)
		case "stateTransitions", "state_transitions":
			transitions(c, func() { n.Transitions = append(n.Transitions, d.nodeTransition(c)) })
		default:
			c.skip()
		}
	})
	return identified(n.ID)
}

func (d *Decoder) nodeTransition(c *cursor) (t entities.NodeTransition) {
	fields(c, func(key string) {
		switch key {
		case "state":
			t.State = d.name(c)
		case "timestamp":
			t.Time = d.timeOf(c)
		case "resources":
			t.Resources = numberMap(c)
		case "aliveSubState", "alive_sub_state":
			t.SubState = d.name(c)
		case "deathInfo", "death_info":
			fields(c, func(key string) {
				switch key {
				case "reason":
					t.DeathReason = d.name(c)
				case "reasonMessage", "reason_message":
					t.DeathMessage = d.str(c)
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

func (d *Decoder) jobDefinition(c *cursor) subject {
	j := &d.scratch.Job
	fields(c, func(key string) {
		switch key {
		case "jobId", "job_id":
			j.ID = readID[rayid.Job](c)
		case "driverPid", "driver_pid":
			j.DriverPID = c.integer()
		case "driverNodeId", "driver_node_id":
			j.DriverNode = readID[rayid.Node](c)
		case "entrypoint":
			j.Entrypoint = d.str(c)
		case "config":
			j.RuntimeEnv, j.Metadata = d.config(c)
		default:
			c.skip()
		}
	})
	return identified(j.ID)
}

// config reads the Config of a job's or a submission's definition.
func (d *Decoder) config(c *cursor) (runtimeEnv string, metadata map[string]string) {
	fields(c, func(key string) {
		switch key {
		case "serializedRuntimeEnv", "serialized_runtime_env":
			runtimeEnv = d.str(c)
		case "metadata":
			metadata = stringMap(c)
		default:
			c.skip()
		}
	})
	return runtimeEnv, metadata
}

func (d *Decoder) jobLifecycle(c *cursor) subject {
	j := &d.scratch.Job
	fields(c, func(key string) {
		switch key {
		case "jobId", "job_id":
			j.ID = readID[rayid.Job](c)
		case "stateTransitions", "state_transitions":
			transitions(c, func() {
				var t entities.JobTransition
				fields(c, func(key string) {
					switch key {
					case "state":
						t.State = d.name(c)
					case "timestamp":
						t.Time = d.timeOf(c)
					default:
						c.skip()
					}
				})
				j.Transitions = append(j.Transitions, t)
			})
		default:
			c.skip()
		}
	})
	return identified(j.ID)
}

// hashOf hashes an event's text; never 0.
func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64() | 1
}
