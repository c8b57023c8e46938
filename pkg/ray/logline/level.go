package logline

import (
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
)

// Level says how serious a line is. A higher one is more serious.
type Level int8

// The levels that all libraries' own are taken for.
const (
	Unknown Level = iota
	Debug
	Info
	Warning
	Error
	Fatal
)

// LevelNames are the names of the levels but Unknown, the least serious first.
var LevelNames = []string{"debug", "info", "warning", "error", "fatal"}

// String is the level's name, "" for Unknown.
func (l Level) String() string {
	if l == Unknown {
		return ""
	}
	return LevelNames[l-Debug]
}

// ParseLevel reads a level's name; "" is Unknown.
func ParseLevel(name string) (Level, error) {
	if name == "" {
		return Unknown, nil
	}
	for i, known := range LevelNames {
		if strings.EqualFold(name, known) {
			return Debug + Level(i), nil
		}
	}
	return Unknown, fmt.Errorf("level=%.40q: want %s", name, human.Or(LevelNames))
}

// letterLevel is the level that a letter stands for in the lines of glog, PyTorch, TensorFlow and Ray's C++ logs;
// Unknown for other letters.
func letterLevel(c byte) Level {
	switch c {
	case 'D', 'T', 'V':
		return Debug
	case 'I', 'N':
		return Info
	case 'W':
		return Warning
	case 'E':
		return Error
	case 'C', 'F':
		return Fatal
	}
	return Unknown
}

// levelByClearName is the level of a word in capital letters; Unknown for those with other meanings, such as LOG.
func levelByClearName(word []byte) Level {
	switch string(word) {
	case "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "TRACE", "NOTICE", "SEVERE", "SUCCESS":
		return levelByName(word)
	}
	return Unknown
}

// levelByName is the level with a name in capital letters. It knows also the names that are words with other meanings,
// such as FINE and LOG.
func levelByName(name []byte) Level {
	switch string(name) {
	case "DEBUG", "TRACE", "VERBOSE", "FINE", "FINER", "FINEST", "DEBU", "DBUG", "DBG", "DEBG", "TRAC", "TRC", "VRB":
		return Debug
	case "INFO", "NOTICE", "SUCCESS", "INFORMATION", "INFORMATIONAL", "CONFIG", "INF", "LOG", "NTC":
		return Info
	case "WARNING", "WARN", "WRN", "WARNI":
		return Warning
	case "ERROR", "ERR", "ERRO", "EROR", "SEVERE", "FAIL":
		return Error
	case "CRITICAL", "FATAL", "CRIT", "FATA", "FTL", "PANIC", "PANI", "PNC", "DPANIC", "ALERT", "EMERG", "EMERGENCY":
		return Fatal
	}
	return Unknown
}

// levelInAnyCase is the level of a name in letters of any case; Unknown for other words.
func levelInAnyCase(name []byte) Level {
	var capitals [len("INFORMATIONAL")]byte
	if len(name) == 0 || len(name) > len(capitals) {
		return Unknown
	}
	for i, c := range name {
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		capitals[i] = c
	}
	return levelByName(capitals[:len(name)])
}

// syslogLevel is the level of a severity of syslog, from 0 (emergency) to 7 (debug), as RFC 5424 has them.
func syslogLevel(severity int) Level {
	switch {
	case severity <= 2:
		return Fatal
	case severity == 3:
		return Error
	case severity == 4:
		return Warning
	case severity <= 6:
		return Info
	}
	return Debug
}
