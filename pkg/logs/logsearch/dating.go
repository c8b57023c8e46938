package logsearch

import "github.com/rayhistory/historyserver/pkg/ray/logline"

// dating is what is known of a line's time and level, from the line itself or from those before it.
type dating struct {
	line        int64 // its offset in the log; -1: none was determined yet
	header      logline.Header
	timeBy      int64 // offset of the line that says the time; -1: none within reach does
	levelBy     int64 // offset of the line that begins the record; -1: none within reach does
	tracebackBy int64 // offset of the line that begins the record's last traceback; -1: none within reach does
}

// newDating is what is known of a line before any line was looked at.
func newDating(line int64) dating {
	return dating{line: line, timeBy: -1, levelBy: -1, tracebackBy: -1}
}

// headerOfAll is what the lines say together. From a traceback on, a record below warning is an error: what a program
// prints stands below records of others, such as Ray's.
func (d *dating) headerOfAll() logline.Header {
	h := d.header
	if d.tracebackBy >= 0 && h.Level < logline.Warning {
		h.Level = logline.Error
	}
	return h
}

func (d *dating) complete() bool { return d.timeBy >= 0 && d.levelBy >= 0 }

// addLine adds what a line says, if no line after it said it.
func (d *dating) addLine(line int64, h logline.Header) {
	if d.levelBy < 0 && d.tracebackBy < 0 && h.Traceback {
		d.tracebackBy = line
	}
	if d.levelBy < 0 && h.Begins() {
		d.levelBy, d.header.Level = line, h.Level
	}
	if d.timeBy < 0 && h.Dated {
		d.timeBy, d.header.Time, d.header.Dated = line, h.Time, true
	}
}

// addEarlier adds what is known of a line before, as far as lines from first on say it.
func (d *dating) addEarlier(before *dating, first int64) {
	if d.levelBy < 0 && d.tracebackBy < 0 && before.tracebackBy >= first {
		d.tracebackBy = before.tracebackBy
	}
	if d.levelBy < 0 && before.levelBy >= first {
		d.levelBy, d.header.Level = before.levelBy, before.header.Level
	}
	if d.timeBy < 0 && before.timeBy >= first {
		d.timeBy, d.header.Time, d.header.Dated = before.timeBy, before.header.Time, before.header.Dated
	}
}

// headerAt is what the line at begin says of itself. A level that it does not say is that of its record, which is begun
// by the nearest line before it that says a level or a time. A time that it does not say is that of the nearest line
// before it that says one. Of a line that overwrites itself it is what the part with the match says, which is at from
// in the line's text.
func (s *scanner) headerAt(begin int, text []byte, from int) logline.Header {
	dated := newDating(s.base + int64(begin))
	if state, at := logline.State(text, from); at > 0 || len(state)+1 < len(text) { // the line overwrites itself
		dated.addLine(dated.line, logline.Parse(state, &s.clock))
	}
	for at := begin; at >= 0 && !dated.complete(); at = s.lineBefore(at, begin) {
		offset := s.base + int64(at)
		// what is before it was looked at: of a million lines that say nothing, each would look back at thousands
		if offset == s.lastDating.line {
			withinReach := dated.line - int64(s.reach) // of what that line knows, what is said from here on counts
			dated.addEarlier(&s.lastDating, withinReach)
			break
		}
		dated.addLine(offset, logline.Parse(s.buf[at:s.end], &s.clock))
	}
	s.lastDating = dated
	return dated.headerOfAll()
}

// headerOfPart is the header of a part of a line: what the part does not say is as in the line.
func headerOfPart(part, line logline.Header) logline.Header {
	if !part.Begins() {
		return line
	}
	if !part.Dated {
		part.Time, part.Dated = line.Time, line.Dated
	}
	return part
}
