package eventjson

// platformEvent reads an event of the platform. Its ID, severity and time are the RayEvent's, see mergePlatform.
func (d *Decoder) platformEvent(c *cursor) subject {
	p := &d.scratch.Platform
	fields(c, func(key string) {
		switch key {
		case "source":
			fields(c, func(key string) {
				switch key {
				case "platform":
					p.Platform = d.name(c)
				case "component":
					p.Component = d.str(c)
				case "metadata":
					p.Metadata = stringMap(c)
				default:
					c.skip()
				}
			})
		case "objectKind", "object_kind":
			p.ObjectKind = d.str(c)
		case "objectName", "object_name":
			p.ObjectName = d.str(c)
		case "message":
			p.Message = d.str(c)
		case "reason":
			p.Reason = d.str(c)
		case "customFields", "custom_fields":
			p.CustomFields = stringMap(c)
		default:
			c.skip()
		}
	})
	return ofPlatform
}

// mergePlatform passes an event of the platform to the sink. The platform may tell of what was before the session, and its clock is not the
// cluster's: such times do not count for First and Last.
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
