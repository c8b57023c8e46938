package logline

import (
	"fmt"
	"strings"
)

// Level says how serious a line is. A higher one is more serious.
type Level int8

// The levels of Ray's logs, C++ and Python.
const (
	Unknown Level = iota
	Debug
	Info
	Warning
	Error
	Fatal
)

var levelNames = [...]string{"", "debug", "info", "warning", "error", "fatal"}

// String is the level's name in small letters, "" for Unknown.
func (l Level) String() string { return levelNames[l] }

// ParseLevel reads a level's name; "" is Unknown.
func ParseLevel(name string) (Level, error) {
	for level, known := range levelNames {
		if strings.EqualFold(name, known) {
			return Level(level), nil
		}
	}
	return Unknown, fmt.Errorf("level %.40q: want debug, info, warning, error or fatal", name)
}

// letterLevel is the level of a letter in C++ logs (ray/util/logging.cc).
func letterLevel(c byte) Level {
	switch c {
	case 'D', 'T':
		return Debug
	case 'I':
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

func wordLevel(word []byte) Level {
	switch string(word) {
	case "DEBUG", "TRACE":
		return Debug
	case "INFO":
		return Info
	case "WARNING", "WARN":
		return Warning
	case "ERROR":
		return Error
	case "CRITICAL", "FATAL":
		return Fatal
	}
	return Unknown
}
