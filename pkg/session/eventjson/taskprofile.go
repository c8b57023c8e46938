package eventjson

import "github.com/rayhistory/historyserver/pkg/ray/rayid"

// taskProfile reads a TaskProfileEvents into d.update: the process that an attempt ran in, and what it did when.
func (d *Decoder) taskProfile(c *cursor) subjectKind {
	u := &d.update
	u.reset()
	var id, unread []byte
	var attempt int64
	var by Profiler
	c.object()
	for c.next() {
		switch string(c.key) {
		case "taskId", "task_id":
			id = c.rawString()
		case "attemptNumber", "attempt_number":
			attempt = c.integer()
		case "jobId", "job_id":
			u.Job = idOf[rayid.Job](c.rawString())
		case "profileEvents", "profile_events":
			// Extra data may contain the task's ID, so the events are read after it.
			by, unread = d.profileEvents(c, d.setAttempt(id, 0) == ofTask)
		default:
			c.skip()
		}
	}
	if c.bad {
		return unidentified
	}
	subject := d.setAttempt(id, attempt)
	// Ray's nil task ID, all 0xff, is given and yet names no task.
	if subject == unidentified && idOf[rayid.Task](id) == nilTask {
		return ofNobody
	}
	if subject != ofTask || by == (Profiler{}) {
		return subject
	}
	u.Profiler = by
	if len(unread) > 0 {
		in := cursor{b: unread, whole: true}
		if d.profileList(&in); in.bad {
			c.bad = true
			return unidentified
		}
	}
	return subject
}

// profileEvents reads a ProfileEvents: the process that sent it, by, and its list of events. With readList the list is
// read into d.update; otherwise unread is its text.
func (d *Decoder) profileEvents(c *cursor, readList bool) (by Profiler, unread []byte) {
	c.object()
	for c.next() {
		switch string(c.key) {
		case "componentType", "component_type":
			by.Kind = d.internText(c.rawString())
		case "componentId", "component_id":
			by.ID = d.anyBinary(c.rawString())
		case "nodeIpAddress", "node_ip_address":
			by.IP = d.internText(c.rawString())
		case "events":
			if readList {
				d.profileList(c)
			} else {
				unread = c.value()
			}
		default:
			c.skip()
		}
	}
	return by, unread
}

// profileList reads a list of profile events into d.update.
func (d *Decoder) profileList(c *cursor) {
	for c.list(); c.more(); {
		d.profileEvent(c)
	}
}

// profileEvent reads one profile event of a task, such as "task:execute", and adds it to d.update. Its times are Unix
// nanoseconds.
func (d *Decoder) profileEvent(c *cursor) {
	var e ProfileEvent
	c.object()
	for c.next() {
		switch string(c.key) {
		case "startTime", "start_time":
			e.Start = c.integer()
		case "endTime", "end_time":
			e.End = c.integer()
		case "eventName", "event_name":
			e.Name = d.internText(c.rawString())
		case "extraData", "extra_data":
			e.Extra = d.extraData(c.rawString())
		default:
			c.skip()
		}
	}
	if c.bad {
		return
	}
	d.update.Profile = append(d.update.Profile, e)
}
