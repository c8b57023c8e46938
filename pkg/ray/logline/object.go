package logline

import (
	"bytes"

	"github.com/rayhistory/historyserver/pkg/ray/jsontext"
)

// kind is what the value of a key of an object says.
type kind int8

const (
	keyOther kind = iota
	keyLevel
	keyTime
	keyMessage
	keyException
	keyInside // an object that has such keys
)

// key is what is known of a key: what its value says, and how sure that is. A smaller rank is surer.
type key struct {
	kind kind
	rank int8
}

// keyOf returns what kind of value a key has in the JSON or logfmt of libraries that write logs, and its rank: of
// several values of a kind, that of the key with the lowest rank counts.
func keyOf(name []byte) key {
	switch string(name) {
	case "levelname", "severityText", "SeverityText", "severity_text", "log.level", "@level", "level_name", "levelName":
		return key{keyLevel, 1}
	case "level", "severity", "lvl", "loglevel", "log_level", "logLevel", "LogLevel", "Level", "@l", "LEVEL",
		"Severity", "log_severity", "PRIORITY":
		return key{keyLevel, 2}
	case "severityNumber", "SeverityNumber", "severity_number", "levelno", "level_number":
		return key{keyLevel, 3}
	case "s", "status":
		return key{keyLevel, 4}
	case "timestamp_ns", "timeUnixNano":
		return key{keyTime, 1}
	case "@timestamp", "timestamp", "asctime", "@t", "Timestamp", "instant", "eventTime", "dateTime":
		return key{keyTime, 2}
	case "time", "ts", "datetime", "Time", "TIMESTAMP", "timeMillis":
		return key{keyTime, 3}
	case "created", "date", "t", "observed_timestamp", "observedTimeUnixNano":
		return key{keyTime, 4}
	case "message", "@message", "short_message":
		return key{keyMessage, 1}
	case "msg", "event", "body", "text", "@m", "@mt", "log":
		return key{keyMessage, 2}
	case "exc_text", "exc_info", "stack_trace", "error.stack_trace", "exception.stacktrace", "traceback":
		return key{keyException, 1}
	case "exception", "stack_info", "stack", "stacktrace", "@x":
		return key{keyException, 2}
	case "record", "fields", "attributes", "error", "labels":
		return key{keyInside, 0}
	}
	return key{}
}

// fields are the values of an object that were found, as they stand there, and how sure they are.
type fields struct {
	level, time, message, exception []byte
	levelKey                        []byte
	text                            []byte // all that is printed of the record in another form
	ranks                           [keyInside]int8
}

// parseObject reads the header of an object of JSON, also of one that is cut.
func parseObject(b []byte, clock *Clock) (h Header) {
	var f fields
	f.readMembers(b[:min(len(b), maxJSON)], 1, nil, recordDepth)
	return f.header(clock)
}

// header returns the level and the time of a JSON line, of which f has the values that count.
func (f *fields) header(clock *Clock) (h Header) {
	h.Level = f.levelOf()
	if len(f.time) > 0 {
		h.Time, h.Dated = objectTime(f.time, clock)
	}
	if h.Level == Unknown && len(f.message) > 2 && f.message[0] == '"' && string(f.levelKey) == "" &&
		f.ranks[keyMessage] == 2 {
		// Docker's own JSON has no level: it has the line as text in "log", a key of rank 2.
		text := f.message[1:min(len(f.message)-1, MaxHeader)]
		if inner, _ := parseText(text, nil, clock); inner.Level != Unknown && h.Dated { // nil: JSON in it is not read
			h.Level = inner.Level
		}
	}
	return h
}

// recordDepth is how many levels of objects are read of a record: its own fields, and those of an object in it.
const recordDepth = 2

// readMembers reads the members of a JSON object from i on, and returns where the object ends. The object may be cut.
// parent is the object's key, nil for the record itself. depth is how many levels of objects are read, with this one.
func (f *fields) readMembers(b []byte, i int, parent []byte, depth int) int {
	for i < len(b) { // at the beginning of a member, or before it
		switch b[i] {
		case '}':
			return i + 1
		case '"':
			end := jsontext.StringEnd(b, i+1)
			name := b[i+1 : min(end, len(b))]
			for i = end + 1; i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r'); i++ {
			}
			if i >= len(b) {
				return i
			}
			if b[i] != ':' {
				continue // a string without a value: damaged
			}
			for i++; i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r'); i++ {
			}
			i = f.readMember(b, i, parent, name, depth)
		case '{', '[':
			return len(b) // a value without a name: this is no object
		default:
			i++
		}
	}
	return i
}

// keyIn is keyOf for a key of the object that parent names. Nested keys are less sure than the record's own, but for
// those of objects that have the record itself.
func keyIn(parent, name []byte, nested bool) key {
	k := keyOf(name)
	switch in := string(parent); {
	case in == "log" && string(name) == "level", in == "record" && string(name) == "message":
		k.rank = 1
	case nested && in != "record" && in != "log" && k.rank > 0:
		k.rank += 4 // the record's own have at most 4
	}
	return k
}

// readMember reads the value at i of the member name, and returns where it ends. Of several values of a kind, the one
// whose key has the lowest rank is kept. A value that is cut is kept only if it is a string or an object. The members
// of an object that may have a part of the record, such as "log", are read, too. parent and depth are as in
// readMembers.
func (f *fields) readMember(b []byte, i int, parent, name []byte, depth int) (end int) {
	if i >= len(b) {
		return i
	}
	nested := depth < recordDepth
	k := keyIn(parent, name, nested)
	if b[i] == '{' && depth > 1 && (k.kind == keyInside || string(name) == "log") {
		return f.readMembers(b, i+1, name, depth-1)
	}
	end = valueEnd(b, i)
	isCut := end >= len(b) && b[i] != '"' && b[i] != '{'
	if isCut || k.kind == keyOther || k.kind == keyInside {
		return end
	}
	value := b[i:min(end, len(b))]
	if k.kind == keyMessage && string(name) == "text" && len(value) > 0 && value[0] == '"' {
		f.text = value
	}
	if len(value) == 0 || string(value) == "null" || f.ranks[k.kind] != 0 && f.ranks[k.kind] <= k.rank {
		return end
	}
	switch k.kind {
	case keyLevel:
		if levelOf(name, value) == Unknown {
			return end
		}
		f.level, f.levelKey = value, name
	case keyTime:
		f.time = value
		if _, ok := objectTime(value, &anyClock); !ok {
			return end // it counts only if no other key has a time
		}
	case keyMessage:
		f.message = value
	case keyException:
		f.exception = value
	}
	f.ranks[k.kind] = k.rank
	return end
}

// anyClock tells times from other values.
var anyClock = Clock{From: 1, To: 1}

// levelOf is the level that the fields have; Unknown if they have none.
func (f *fields) levelOf() Level {
	if len(f.level) == 0 {
		return Unknown
	}
	return levelOf(f.levelKey, f.level)
}

// levelOf reads the value of a key that has a level: a letter, a name, a number, or an object with a name (loguru). The
// name of the key tells what letters and numbers mean; a letter is a level only of keys of which that is known.
func levelOf(name, value []byte) Level {
	switch value[0] {
	case '"':
		text := bytes.TrimSpace(bytes.Trim(value, `"`))
		if len(text) == 1 {
			switch string(name) {
			case "s", "levelname", "severity", "level":
				return letterLevel(text[0])
			}
			return Unknown
		}
		if isShortNumber(text) {
			return numberLevel(name, text)
		}
		return levelInAnyCase(text)
	case '{':
		return levelInAnyCase(nameIn(value))
	}
	if isShortNumber(value) {
		return numberLevel(name, value)
	}
	return Unknown
}

// nameIn returns the text of an object's member "name"; nil if it has none. The object may be cut.
func nameIn(object []byte) (name []byte) {
	for i := 1; i < len(object); {
		if object[i] != '"' {
			i++
			continue
		}
		end := jsontext.StringEnd(object, i+1)
		key := object[i+1 : min(end, len(object))]
		at := end + 1
		for at < len(object) && (object[at] == ':' || object[at] == ' ' || object[at] == '\n') {
			at++
		}
		if at >= len(object) {
			break
		}
		i = valueEnd(object, at)
		if string(key) == "name" {
			name = bytes.Trim(object[at:min(i, len(object))], `"`)
		}
	}
	return name
}

// isShortNumber reports whether a text is a whole number of at most three digits, as levels are.
func isShortNumber(digits []byte) bool {
	return len(digits) > 0 && len(digits) < 4 && countDigits(digits) == len(digits)
}

// numberLevel is the level that a number stands for: by the key's name, the severity of OpenTelemetry (1 to 24) or of
// syslog, or the level of Python's logging; else that of bunyan and pino, which count by tens from 10 (trace) to 60
// (fatal). Python has no trace: it counts from 10 (debug) to 50 (critical).
func numberLevel(name, digits []byte) Level {
	n := valueOf(digits)
	switch string(name) {
	case "severityNumber", "SeverityNumber", "severity_number":
		switch {
		case n >= 1 && n <= 8:
			return Debug
		case n >= 9 && n <= 24:
			return Level(n-9)/4 + Info // four numbers for each level
		}
		return Unknown
	case "levelno", "level_number":
		n += 10 // as bunyan counts
	case "PRIORITY":
		return syslogLevel(n)
	}
	switch {
	case n < 10 || n > 60 || n%10 != 0:
		return Unknown
	case n <= 20:
		return Debug
	}
	return Level(n/10-3) + Info
}

// objectTime reads the value of a key that has a time: a text, a number, or an object with seconds and nanoseconds. ns
// is Unix ns; ok is false if it is no time.
func objectTime(value []byte, clock *Clock) (ns int64, ok bool) {
	switch {
	case len(value) == 0:
		return 0, false
	case value[0] == '"':
		return timeOf(bytes.Trim(value, `"`), clock)
	case value[0] == '{': // the first number is the time, in seconds or as text, and one behind "nano" is its fraction
		for i := 1; i < len(value); i++ {
			if isDigit(value[i]) && !isDigit(value[i-1]) {
				digits := countDigits(value[i:])
				switch {
				case ns == 0:
					if ns, ok = timeOf(value[i:textEnd(value, i)], clock); !ok {
						ns = epochNs(value[i : i+digits])
					}
					if ns == 0 {
						return 0, false
					}
				case digits <= 9 && ns%1e9 == 0 && bytes.Contains(bytes.ToLower(value[:i]), []byte("nano")):
					return ns + int64(valueOf(value[i:i+digits])), true
				}
				i += digits
			}
		}
		return ns, ns != 0
	}
	ns = epochNs(value)
	return ns, ns != 0
}

// textEnd is where the text ends that has the byte at i: at the next quote or at the end.
func textEnd(b []byte, i int) int {
	if n := bytes.IndexAny(b[i:], "\",}"); n >= 0 {
		return i + n
	}
	return len(b)
}

// valueEnd returns where the JSON value that begins at i ends; len(b) if it is cut.
func valueEnd(b []byte, i int) int {
	switch b[i] {
	case '"':
		return min(len(b), jsontext.StringEnd(b, i+1)+1)
	case '{', '[':
		depth := 0
		for i < len(b) {
			switch b[i] {
			case '"':
				i = jsontext.StringEnd(b, i+1)
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return len(b)
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != '\n' && b[i] != '\r' && b[i] != ' ' {
		i++
	}
	return i
}
