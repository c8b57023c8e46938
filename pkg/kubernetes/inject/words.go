package inject

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// fieldsOf returns the words that the shell makes of one word of a script: a variable outside of quotes may hold
// several, or none.
func (s *shell) fieldsOf(w *syntax.Word) []value {
	words := [][]value{nil} // the values that each is made of
	for _, part := range w.Parts {
		v := s.partValue(part, unquoted)
		split := []string{v.text}
		if _, ok := part.(*syntax.ParamExp); ok && v.isKnown() {
			split = strings.Fields(v.text)
		}
		for i, f := range split {
			if i > 0 {
				words = append(words, nil)
			}
			words[len(words)-1] = append(words[len(words)-1], value{f, v.why})
		}
	}
	if len(words) == 1 && words[0] == nil {
		return nil // an empty variable is no word
	}
	out := make([]value, len(words))
	for i, values := range words {
		out[i] = joinValues(values...)
	}
	return out
}

// quoting says whether double quotes are around a part of a word.
type quoting bool

const (
	unquoted quoting = false
	inQuotes quoting = true
)

// oneWord is the text of parts as one word, whatever the variables in it hold.
func (s *shell) oneWord(parts []syntax.WordPart, q quoting) value {
	values := make([]value, len(parts))
	for i, p := range parts {
		values[i] = s.partValue(p, q)
	}
	return joinValues(values...)
}

// partValue returns the value of a part of a word, as far as it is known.
func (s *shell) partValue(p syntax.WordPart, q quoting) value {
	switch p := p.(type) {
	case *syntax.Lit:
		return s.literal(unescape(p.Value, q))
	case *syntax.SglQuoted:
		return s.literal(p.Value)
	case *syntax.DblQuoted:
		return s.oneWord(p.Parts, inQuotes)
	case *syntax.ParamExp:
		return s.parameterValue(p)
	case *syntax.CmdSubst:
		return s.substitutedValue(p)
	}
	return unknownValue("an expression of the shell")
}

// literal returns a text of the script as a value. Where Kubernetes put in something that is not known (unread), the
// value is not known, either.
func (s *shell) literal(text string) value {
	if strings.Contains(text, unread) {
		return value{text: text, why: s.why}
	}
	return knownValue(text)
}

// unescape removes the backslashes that the shell removes from a literal: outside of quotes all, inside of them those
// before a character that means something there. One before a line end is removed with it.
func unescape(text string, q quoting) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (q == unquoted || strings.IndexByte("$`\"\\\n", text[i+1]) >= 0) {
			if i++; text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// parameterValue returns the value of a variable in one of the forms $NAME, ${NAME:-other}, ${NAME:?text} and
// ${NAME%suffix}, as far as it is known; that of any other form is not. A variable that is not set may be in envFrom,
// which is not read: then a default (other) is not certain to count.
func (s *shell) parameterValue(p *syntax.ParamExp) value {
	if p.Param == nil {
		return unknownValue("an expression of the shell")
	}
	why := "variable " + p.Param.Value
	v, set := s.vars[p.Param.Value]
	if p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 {
		return unknownValue(why) // ${!NAME}, ${#NAME}, ${NAME[0]}, ${NAME:1:2}, ${NAME/a/b} …
	}
	if p.Exp == nil { // $NAME
		if !set {
			return unknownValue(why)
		}
		return v
	}
	other := value{}
	if p.Exp.Word != nil {
		other = s.oneWord(p.Exp.Word.Parts, unquoted)
	}
	switch p.Exp.Op {
	// ${NAME:-other}, ${NAME:=other}, ${NAME-other}, ${NAME=other}
	case syntax.DefaultUnsetOrNull, syntax.AssignUnsetOrNull, syntax.DefaultUnset, syntax.AssignUnset:
		switch {
		case !set && len(s.from) > 0:
			return unknownValue(why + " (envFrom " + s.from[0] + ")")
		case !set:
			return other
		case v.isKnown() && v.text == "" && (p.Exp.Op == syntax.DefaultUnsetOrNull ||
			p.Exp.Op == syntax.AssignUnsetOrNull):
			return other
		}
		return v
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull: // ${NAME?text}, ${NAME:?text}
		if set {
			return v
		}
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix: // ${NAME%suffix}, ${NAME%%suffix}; a pattern is not followed
		if set && v.isKnown() && other.isKnown() && !strings.ContainsAny(other.text, "*?[") {
			return knownValue(strings.TrimSuffix(v.text, other.text))
		}
	}
	return unknownValue(why)
}

// substitutedValue returns the value of $(…). Where that is $(NAME) with the name of a variable, Kubernetes has put in
// the variable's value before the shell saw it. The output of a command is not known.
func (s *shell) substitutedValue(c *syntax.CmdSubst) value {
	if len(c.Stmts) == 1 {
		if call, ok := c.Stmts[0].Cmd.(*syntax.CallExpr); ok && len(call.Args) == 1 && len(call.Assigns) == 0 {
			name := call.Args[0].Lit()
			if v, ok := s.vars[name]; ok && s.exported[name] {
				return v
			}
			return unknownValue("command " + name)
		}
	}
	return unknownValue("the output of a command")
}
