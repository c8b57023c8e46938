package logs

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxFileName limits the name of a download, in bytes: file systems accept no longer ones.
const maxFileName = 200

// attachment returns a Content-Disposition (RFC 6266) that saves an answer under a name. Anybody may have chosen the name, so no part of it may be
// read as a folder, as the end of the header or as another field of it.
func attachment(name string) string {
	name = strings.ToValidUTF8(name, "_")
	name = strings.Map(func(c rune) rune {
		switch {
		case c < ' ', c == 0x7f, strings.ContainsRune(`"\/`, c), unicode.In(c, unicode.C, unicode.Zl, unicode.Zp):
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
		// Some characters that may be in a path, such as "@", may not be in a value of RFC 8187.
		header += "; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	return header
}
