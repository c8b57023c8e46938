package logs

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxFileName bounds the name of a download, in bytes: file systems take no longer ones.
const maxFileName = 200

// attachment is a Content-Disposition (RFC 6266) by which an answer is saved under a name, which anybody may have chosen: no part of it is
// taken for a folder, an end of the header or another field of it.
func attachment(name string) string {
	name = strings.ToValidUTF8(name, "_")
	name = strings.Map(func(c rune) rune {
		switch {
		case c < ' ', c == 0x7f, strings.ContainsRune(`"\/`, c), c >= 0x80 && c < 0xa0, c >= 0x200b && c <= 0x200f, c >= 0x2028 && c <= 0x202e, c >= 0x2066 && c <= 0x2069:
			return '_' // what ends or folds headers, leads to a folder, or turns the direction of writing so that .exe looks like .txt
		}
		return c
	}, name)
	for len(name) > maxFileName {
		_, size := utf8.DecodeRuneInString(name)
		name = name[size:] // the end says what kind of file it is
	}
	if strings.Trim(name, ". ") == "" {
		name = "file.txt"
	}
	if strings.HasPrefix(name, ".") {
		name = "_" + name[1:]
	}
	ascii := strings.Map(func(c rune) rune {
		if c >= utf8.RuneSelf {
			return '_'
		}
		return c
	}, name)
	header := `attachment; filename="` + ascii + `"`
	if ascii != name {
		// Of what a path may have, as "@", some may not be in a value of RFC 8187.
		header += "; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	return header
}
