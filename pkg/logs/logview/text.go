package logview

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// encodingBytes is how much of a log tells its encoding.
const encodingBytes = 64

// encodingOf finds how a log is stored, by its first bytes.
func encodingOf(ctx context.Context, f *sessionlogs.File) (logline.Encoding, error) {
	text, err := f.ReadText(ctx, 0, f.Size(), encodingBytes)
	if err != nil {
		return logline.Bytes, err
	}
	return logline.EncodingOf(text.Bytes[min(int64(len(text.Bytes)), text.Offset(0)&1):]), nil
}

// Text is a part of a log as UTF-8. The part may begin and end within a character.
func Text(encoding logline.Encoding, part []byte) string {
	if encoding != logline.Bytes {
		return string(bytes.ToValidUTF8(encoding.Append(nil, part), []byte("\uFFFD")))
	}
	if utf8.Valid(part) {
		return string(part)
	}
	var text bytes.Buffer
	for line := range bytes.Lines(part) {
		text.Write(utf8Of(line, text.Len() == 0, line[len(line)-1] != '\n'))
	}
	return text.String()
}

// utf8Of is a line as UTF-8. Where it may have been cut within a character of UTF-8, at its beginning or its end, the
// rest of that is left out.
func utf8Of(line []byte, cutBefore, cutBehind bool) []byte {
	if utf8.Valid(line) {
		return line
	}
	inner := line
	for n := 1; cutBefore && n < utf8.UTFMax && len(inner) > 0 && !utf8.RuneStart(inner[0]); n++ {
		inner = inner[1:]
	}
	for n := 1; cutBehind && n < utf8.UTFMax && n <= len(inner); n++ {
		if last := inner[len(inner)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				inner = inner[:len(inner)-n]
			}
			break
		}
	}
	if utf8.Valid(inner) {
		return inner
	}
	return logline.UTF8(line)
}
