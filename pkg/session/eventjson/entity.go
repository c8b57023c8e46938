package eventjson

import (
	"hash/fnv"
	"math"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// entity reads the value at c if its key names an event that is not a task's; otherwise it skips it.
func (d *Decoder) entity(c *cursor) (about subject, ok bool) {
	read, kind, defines := entityReader(fieldName(string(c.key)))
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

// entityReader returns the reader of the field that holds an event's message, and whether the message defines the
// thing; nil for other fields.
func entityReader(key string) (read func(*Decoder, *cursor) subject, kind entities.Kind, defines bool) {
	switch key {
	case "actorDefinitionEvent":
		return (*Decoder).actorDefinition, entities.KindActor, true
	case "actorLifecycleEvent":
		return (*Decoder).actorLifecycle, entities.KindActor, false
	case "nodeDefinitionEvent":
		return (*Decoder).nodeDefinition, entities.KindNode, true
	case "nodeLifecycleEvent":
		return (*Decoder).nodeLifecycle, entities.KindNode, false
	case "driverJobDefinitionEvent":
		return (*Decoder).jobDefinition, entities.KindJob, true
	case "driverJobLifecycleEvent":
		return (*Decoder).jobLifecycle, entities.KindJob, false
	case "submissionJobDefinitionEvent":
		return (*Decoder).submissionDefinition, entities.KindSubmission, true
	case "submissionJobLifecycleEvent":
		return (*Decoder).submissionLifecycle, entities.KindSubmission, false
	case "workerDefinitionEvent":
		return (*Decoder).workerDefinition, entities.KindWorker, true
	case "workerLifecycleEvent":
		return (*Decoder).workerLifecycle, entities.KindWorker, false
	case "placementGroupDefinitionEvent":
		return (*Decoder).groupDefinition, entities.KindPlacementGroup, true
	case "placementGroupLifecycleEvent":
		return (*Decoder).groupLifecycle, entities.KindPlacementGroup, false
	case "platformEvent":
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

// message calls read for each field of the protobuf message at c. A value that read leaves is skipped.
func message(c *cursor, read func(field string)) {
	for c.object(); c.next(); {
		before := c.i
		if read(fieldName(string(c.key))); c.i == before {
			c.skip()
		}
	}
}

// lifecycle reads a lifecycle event: the subject's ID, which each kind has in a field of another name, and transitions.
func lifecycle[T any](c *cursor, id string, readID func(), to *[]T, read func(*cursor) T) {
	message(c, func(field string) {
		switch field {
		case id:
			readID()
		case "stateTransitions":
			transitions(c, func() { *to = append(*to, read(c)) })
		}
	})
}

// fieldName returns the name of a field as protobuf's JSON spells it, jobId. A writer may also keep the spelling of
// .proto files, job_id.
func fieldName(key string) string {
	if strings.IndexByte(key, '_') < 0 {
		return key
	}
	name := make([]byte, 0, len(key))
	for i := 0; i < len(key); i++ {
		if key[i] == '_' && i+1 < len(key) && 'a' <= key[i+1] && key[i+1] <= 'z' {
			i++
			name = append(name, key[i]-'a'+'A')
		} else {
			name = append(name, key[i])
		}
	}
	return string(name)
}

// str reads a string.
func (d *Decoder) str(c *cursor) string { return string(unquote(c.rawString(), nil)) }

// name reads an enumeration's value. Protobuf's JSON writes a number for a value without a known name; it stays a
// number.
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

// actorDefinition reads an ActorDefinitionEvent.
func (d *Decoder) actorDefinition(c *cursor) subject {
	a := &d.scratch.Actor
	a.Defined = true
	message(c, func(field string) {
		switch field {
		case "actorId":
			a.ID = readID[rayid.Actor](c)
		case "jobId":
			a.Job = readID[rayid.Job](c)
		case "isDetached":
			a.Detached = c.boolean()
		case "name":
			a.Name = d.str(c)
		case "rayNamespace":
			a.Namespace = d.str(c)
		case "serializedRuntimeEnv":
			a.RuntimeEnv = d.str(c)
		case "className":
			a.Class = d.str(c)
		case "requiredResources":
			a.Resources = numberMap(c)
		case "placementGroupId":
			a.PlacementGroup = readID[rayid.PlacementGroup](c)
		case "labelSelector":
			a.LabelSelector = stringMap(c)
		case "callSite":
			a.CallSite = d.str(c)
		case "parentId":
			a.Parent = parentOf(c.rawString())
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

// actorLifecycle reads an ActorLifecycleEvent.
func (d *Decoder) actorLifecycle(c *cursor) subject {
	a := &d.scratch.Actor
	lifecycle(c, "actorId", func() { a.ID = readID[rayid.Actor](c) }, &a.Transitions, d.actorTransition)
	return identified(a.ID)
}

// actorTransition reads one change of an actor's state.
func (d *Decoder) actorTransition(c *cursor) (t entities.ActorTransition) {
	message(c, func(field string) {
		switch field {
		case "state":
			t.State = d.name(c)
		case "timestamp":
			t.Time = d.timeOf(c)
		case "nodeId":
			t.Node = readID[rayid.Node](c)
		case "workerId":
			t.Worker = readID[rayid.Worker](c)
		case "reprName":
			t.ReprName = d.str(c)
		case "deathCause":
			if cause := c.value(); cause != nil {
				t.DeathCause = appendMessage(nil, &cursor{b: cause, whole: true})
			}
		case "pid":
			t.PID = uint32(c.integer())
		case "port":
			t.Port = int32(c.integer())
		case "restartReason":
			t.RestartReason = d.name(c)
		}
	})
	return t
}

// nodeDefinition reads a NodeDefinitionEvent.
func (d *Decoder) nodeDefinition(c *cursor) subject {
	n := &d.scratch.Node
	message(c, func(field string) {
		switch field {
		case "nodeId":
			n.ID = readID[rayid.Node](c)
		case "nodeIpAddress":
			n.IP = d.str(c)
		case "labels":
			n.Labels = stringMap(c)
		case "startTimestamp":
			n.Start = d.timeOf(c)
		case "hostname":
			n.Hostname = d.str(c)
		case "nodeName":
			n.Name = d.str(c)
		case "instanceId":
			n.InstanceID = d.str(c)
		case "instanceTypeName":
			n.InstanceType = d.str(c)
		}
	})
	return identified(n.ID)
}

// nodeLifecycle reads a NodeLifecycleEvent.
func (d *Decoder) nodeLifecycle(c *cursor) subject {
	n := &d.scratch.Node
	lifecycle(c, "nodeId", func() { n.ID = readID[rayid.Node](c) }, &n.Transitions, d.nodeTransition)
	return identified(n.ID)
}

// nodeTransition reads one change of a node's state.
func (d *Decoder) nodeTransition(c *cursor) (t entities.NodeTransition) {
	message(c, func(field string) {
		switch field {
		case "state":
			t.State = d.name(c)
		case "timestamp":
			t.Time = d.timeOf(c)
		case "resources":
			t.Resources = numberMap(c)
		case "aliveSubState":
			t.SubState = d.name(c)
		case "deathInfo":
			message(c, func(field string) {
				switch field {
				case "reason":
					t.DeathReason = d.name(c)
				case "reasonMessage":
					t.DeathMessage = d.str(c)
				}
			})
		}
	})
	return t
}

// jobDefinition reads a DriverJobDefinitionEvent.
func (d *Decoder) jobDefinition(c *cursor) subject {
	j := &d.scratch.Job
	message(c, func(field string) {
		switch field {
		case "jobId":
			j.ID = readID[rayid.Job](c)
		case "driverPid":
			j.DriverPID = c.integer()
		case "driverNodeId":
			j.DriverNode = readID[rayid.Node](c)
		case "entrypoint":
			j.Entrypoint = d.str(c)
		case "config":
			j.RuntimeEnv, j.Metadata = d.config(c)
		}
	})
	return identified(j.ID)
}

// config reads the Config of a job's or a submission's definition.
func (d *Decoder) config(c *cursor) (runtimeEnv string, metadata map[string]string) {
	message(c, func(field string) {
		switch field {
		case "serializedRuntimeEnv":
			runtimeEnv = d.str(c)
		case "metadata":
			metadata = stringMap(c)
		}
	})
	return runtimeEnv, metadata
}

// jobLifecycle reads a DriverJobLifecycleEvent.
func (d *Decoder) jobLifecycle(c *cursor) subject {
	j := &d.scratch.Job
	lifecycle(c, "jobId", func() { j.ID = readID[rayid.Job](c) }, &j.Transitions, d.jobTransition)
	return identified(j.ID)
}

// jobTransition reads one change of a job's state.
func (d *Decoder) jobTransition(c *cursor) (t entities.JobTransition) {
	message(c, func(field string) {
		switch field {
		case "state":
			t.State = d.name(c)
		case "timestamp":
			t.Time = d.timeOf(c)
		}
	})
	return t
}

// hashOf hashes an event's text; never 0.
func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64() | 1
}
