package eventjson

// platformEvent reads an event of the platform. Its ID, severity and time are the RayEvent's, see mergePlatform.
func (d *Decoder) platformEvent(c *cursor) subject {
	p := &d.scratch.Platform
	message(c, func(field string) {
		switch field {
		case "source":
			message(c, func(field string) {
				switch field {
				case "platform":
					p.Platform = d.name(c)
				case "component":
					p.Component = d.str(c)
				case "metadata":
					p.Metadata = stringMap(c)
				}
			})
		case "objectKind":
			p.ObjectKind = d.str(c)
		case "objectName":
			p.ObjectName = d.str(c)
		case "message":
			p.Message = d.str(c)
		case "reason":
			p.Reason = d.str(c)
		case "customFields":
			p.CustomFields = stringMap(c)
		}
	})
	return ofPlatform
}

// mergePlatform passes an event of the platform to the sink. The platform may tell of what was before the session, and
// its clock is not the cluster's: such times do not count for First and Last.
func (d *Decoder) mergePlatform(head header) {
	p := &d.scratch.Platform
	p.ID = string(unquote(head.id, nil))
	if p.ID == "" {
		d.Counts.Damaged++
		return
	}
	p.Severity = string(unquote(head.severity, nil))
	p.Time = d.clock(head.at)
	d.scratch.Time = p.Time
	d.sink.MergeEntity(&d.scratch)
}
