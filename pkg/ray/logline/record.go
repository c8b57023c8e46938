package logline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Expand returns a line that is a record in JSON as Ray would have printed it as text, with the lines of its message
// and of its exception; nil if it is no record in Ray's own JSON, and has no exception.
//
//	{"asctime": T, "levelname": "E", "message": m, "component": "raylet", "filename": "f.cc", "lineno": 1, "node_id": N}
//	→ [T E 0 0] (raylet) f.cc:1: m node_id=N
//	{"asctime": T, "levelname": "ERROR", "message": m, "component_name": "controller", …} → ERROR T controller 0 -- m
//	{"timestamp": T, "level": "error", "event": m, "exception": "Traceback …"} → ERROR T m
func Expand(line []byte) []byte {
	f, level := recordFields(line)
	if level == Unknown || len(f.message) == 0 {
		return nil
	}
	var own ownFields
	exception := f.exceptionText()
	_ = json.Unmarshal(line, &own) // fields that another library has of the same name may have other types
	if raised := string(own.Error.Message); own.Error.Type != "" && !strings.Contains(exception, raised) {
		exception = withTraceback(exception, string(own.Error.Type+": ")+raised)
	}
	message := textOfValue(f.message)
	said := message
	if exception != "" && !strings.Contains(message, exception) {
		said += "\n" + exception
	}
	switch text := own.asText(line, said); {
	case own.Run != "": // there is no text of it to be like
		return nil
	case text != nil:
		return text
	case exception == "" && !strings.Contains(said, "\n"): // the line itself says as much
		return nil
	}
	name := textOfValue(f.level)
	if levelInAnyCase([]byte(name)) == Unknown {
		name = level.String()
	}
	return []byte(strings.TrimSpace(strings.ToUpper(name) + " " + textOfValue(f.time) + " " + said))
}

// ownFields are the fields by which Ray's own records are told from others, and what Expand needs of the Elastic Common
// Schema, whose stack_trace may have only the frames.
type ownFields struct {
	Time          string                         `json:"asctime"`
	Level         string                         `json:"levelname"`
	File          string                         `json:"filename"`
	Line          int                            `json:"lineno"`
	Component     string                         `json:"component"` // of Ray's C++ processes
	ComponentName string                         `json:"component_name"`
	ComponentID   string                         `json:"component_id"`
	Run           string                         `json:"run_name"` // of Train, which writes only JSON
	Error         struct{ Type, Message scalar } `json:"error"`
}

// asText returns the record in line as Ray's processes print it where they write text, with said as its message; nil if
// it is of no process whose text is known.
func (own *ownFields) asText(line []byte, said string) []byte {
	switch {
	case own.Time == "":
		return nil
	case len(own.Level) == 1: // of Ray's C++ processes
		component := ""
		if own.Component != "" {
			component = "(" + own.Component + ") "
		}
		return []byte("[" + own.Time + " " + own.Level + " 0 0] " + component + own.File + ":" +
			strconv.Itoa(own.Line) + ": " + said + extraFields(line))
	case own.ComponentName != "": // of Serve
		return []byte(own.Level + " " + own.Time + " " + own.ComponentName + " " + digitsOr0(own.ComponentID) + " -- " +
			said)
	}
	return nil
}

// extraFields returns the fields that a record of Ray's C++ processes has beside those of each record, such as node_id,
// as they stand behind the message in text (src/ray/util/logging.cc).
func extraFields(line []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	var text strings.Builder
	for _, err := decoder.Token(); err == nil && decoder.More(); { // behind the opening brace
		var name json.Token
		var value any
		if name, err = decoder.Token(); err == nil {
			err = decoder.Decode(&value)
		}
		switch name {
		case "asctime", "levelname", "message", "component", "filename", "lineno":
			continue
		}
		if err == nil {
			fmt.Fprintf(&text, " %s=%v", name, value)
		}
	}
	return text.String()
}

// Message returns the message of a log record in JSON; "" if the line is no such record.
func Message(line []byte) string {
	f, level := recordFields(line)
	if level == Unknown {
		return ""
	}
	return textOfValue(f.message)
}

// recordFields reads the fields of a log record in JSON, and its level; Unknown if the line is no such record.
func recordFields(line []byte) (f fields, level Level) {
	line = bytes.TrimSpace(line)
	if len(line) < 2 || line[0] != '{' || len(line) > maxJSON {
		return f, Unknown
	}
	f.readMembers(line, 1, nil, recordDepth) // behind the brace
	return f, f.levelOf()
}

// exceptionText is what an object says of an exception. loguru has the traceback only in its whole text, behind the
// message.
func (f *fields) exceptionText() string {
	if len(f.exception) == 0 || f.exception[0] != '{' || len(f.text) == 0 {
		return textOfValue(f.exception)
	}
	_, behind, _ := strings.Cut(textOfValue(f.text), textOfValue(f.message)+"\n")
	return cmp.Or(strings.TrimSpace(behind), textOfValue(f.exception))
}

// textOfValue returns the text of a JSON string or number, or of the objects and lists in which libraries write
// exceptions; "" for other values.
func textOfValue(value []byte) (text string) {
	switch {
	case len(value) == 0:
	case value[0] == '"':
		_ = json.Unmarshal(value, &text) // a value that is cut has no text
	case isDigit(value[0]):
		text = string(value)
	case value[0] == '{': // loguru: {"repr": …}; {"type": "KeyError", "value": "'a'", "traceback": true}
		var inner struct{ Repr, Stack, Traceback, Type, Value scalar }
		_ = json.Unmarshal(value, &inner) // what is not there is ""
		text = string(cmp.Or(inner.Stack, inner.Traceback, inner.Repr))
		if text == "" && inner.Type != "" {
			text = strings.TrimSuffix(string(inner.Type+": "+inner.Value), ": ")
		}
	case value[0] == '[': // structlog: [{"exc_type": "KeyError", "exc_value": "'a'", …}, …], the cause behind
		var raised []struct {
			Type    scalar `json:"exc_type"`
			Value   scalar `json:"exc_value"`
			IsCause bool   `json:"is_cause"` // of the one before
			Frames  []struct {
				Filename, Lineno, Name scalar
			}
		}
		_ = json.Unmarshal(value, &raised)
		if len(raised) == 0 {
			break
		}
		root := 0
		for root+1 < len(raised) && raised[root+1].IsCause {
			root++
		}
		e, frames := raised[root], strings.Builder{}
		for _, at := range e.Frames {
			fmt.Fprintf(&frames, "  File %q, line %s, in %s\n", at.Filename, at.Lineno, at.Name)
		}
		text = withTraceback(frames.String(), strings.TrimSuffix(string(e.Type+": "+e.Value), ": "))
	}
	return text
}

// withTraceback returns an exception below its frames as Python prints them; only the exception if there are no frames.
func withTraceback(frames, exception string) string {
	if frames = strings.TrimRight(frames, "\n"); frames == "" {
		return exception
	}
	return "Traceback (most recent call last):\n" + frames + "\n" + exception
}

// scalar is a string or a number as text; "" if it is another value.
type scalar string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scalar) UnmarshalJSON(value []byte) error {
	if value[0] == '"' || isDigit(value[0]) {
		*s = scalar(textOfValue(value))
	}
	return nil
}

// digitsOr0 returns a text that is a whole number; "0" for any other text.
func digitsOr0(text string) string {
	if countDigits([]byte(text)) == len(text) && text != "" {
		return text
	}
	return "0"
}
