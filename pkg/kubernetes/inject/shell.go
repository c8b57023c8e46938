package inject

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shell follows a shell's commands as far as they are known before they run: variables, and the `ray start` commands
// that see them. It runs nothing. A variable that is set only under a condition is unknown.
type shell struct {
	vars        map[string]value
	exported    map[string]bool
	bytes       int      // that variables have taken
	conditional int      // how many conditions the current command depends on
	depth       int      // scripts within scripts
	from        []string // as in environment
	found       launch
	why         string // of the parts of the current script that are unread
}

// maxDepth bounds scripts within scripts, maxScript one script's bytes, maxNested brackets within brackets, which the
// parser reads again and again.
const (
	maxDepth  = 8
	maxScript = 64 << 10
	maxNested = 64
)

// newShell makes a shell that begins with a container's variables, all of them exported.
func newShell(env environment) *shell {
	s := &shell{vars: maps.Clone(env.vars), exported: map[string]bool{}, from: env.from}
	for name := range s.vars {
		s.exported[name] = true
	}
	return s
}

func (s *shell) launch() launch {
	s.found.vars = s.vars
	return s.found
}

// followScript follows the text of a shell script, as if it was run at this place.
func (s *shell) followScript(text value) {
	if s.depth == maxDepth || len(text.text) > maxScript || deepestNesting(text.text) > maxNested {
		s.found.unread = append(s.found.unread, "a script that is too long or too deep")
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text.text), "")
	if err != nil {
		s.found.unread = append(s.found.unread, "a command that is not in a shell's language")
		return
	}
	before := s.why
	s.why = text.why // for its parts that are not known, see literal
	s.depth++
	s.followAll(file.Stmts)
	s.depth--
	s.why = before
}

// deepestNesting returns how many brackets are open at the same time at most, those in quotes and comments too.
func deepestNesting(script string) (most int) {
	open := 0
	for i := range len(script) {
		switch script[i] {
		case '(', '{':
			open++
			most = max(most, open)
		case ')', '}':
			open = max(open-1, 0)
		}
	}
	return most
}

// followAll follows commands one after the other.
func (s *shell) followAll(all []*syntax.Stmt) {
	for _, one := range all {
		s.followCommand(one.Cmd)
	}
}

// followMaybe follows commands that may not run.
func (s *shell) followMaybe(all []*syntax.Stmt) {
	s.conditional++
	s.followAll(all)
	s.conditional--
}

// followCommand follows a command, and those inside it, without running any: it keeps what variables hold, and finds
// the calls of Ray. Branches and loops may not run (maybe); a subshell's variables end with it; a function counts as
// called.
func (s *shell) followCommand(c syntax.Command) {
	switch c := c.(type) {
	case *syntax.CallExpr:
		s.followCall(c)
	case *syntax.DeclClause:
		s.followDeclaration(c)
	case *syntax.BinaryCmd:
		s.followCommand(c.X.Cmd)
		if c.Op == syntax.OrStmt || c.Op == syntax.AndStmt && isTest(c.X) {
			s.followMaybe([]*syntax.Stmt{c.Y})
		} else {
			s.followCommand(c.Y.Cmd)
		}
	case *syntax.Block:
		s.followAll(c.Stmts)
	case *syntax.Subshell:
		inner := *s
		inner.vars, inner.exported = maps.Clone(s.vars), maps.Clone(s.exported)
		inner.followAll(c.Stmts)
		s.found = inner.found
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			s.followAll(c.Cond)
			s.followMaybe(c.Then)
		}
	case *syntax.WhileClause:
		s.followAll(c.Cond)
		s.followMaybe(c.Do)
	case *syntax.ForClause:
		if each, ok := c.Loop.(*syntax.WordIter); ok {
			s.vars[each.Name.Value] = unknownValue("variable " + each.Name.Value)
		}
		s.followMaybe(c.Do)
	case *syntax.CaseClause:
		for _, item := range c.Items {
			s.followMaybe(item.Stmts)
		}
	case *syntax.FuncDecl:
		s.followCommand(c.Body.Cmd)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			s.followCommand(c.Stmt.Cmd)
		}
	case *syntax.CoprocClause:
		s.followCommand(c.Stmt.Cmd)
	}
}

// isTest says whether a statement tests a condition, so that what follows && may not run: [[ … ]], a negated statement,
// or a call of a program that people use for this, such as grep.
func isTest(s *syntax.Stmt) bool {
	switch c := s.Cmd.(type) {
	case *syntax.TestClause:
		return true
	case *syntax.CallExpr:
		if len(c.Args) > 0 {
			return s.Negated || slices.Contains([]string{"[", "test", "grep", "command", "which", "false"},
				c.Args[0].Lit())
		}
	case *syntax.BinaryCmd:
		return isTest(c.X) || isTest(c.Y)
	}
	return s.Negated
}

// setVariable sets a variable. It forgets values that depend on a condition or take too much memory.
func (s *shell) setVariable(name string, v value) {
	if s.conditional > 0 {
		v = unknownValue("variable " + name + " (set under a condition)")
	}
	if s.bytes += len(v.text); s.bytes > maxVariables {
		v = unknownValue("variable " + name + " (too long)")
	}
	s.vars[name] = v
}

// followDeclaration follows a declaration such as export or declare: it sets the variables, and notes which are
// exported.
func (s *shell) followDeclaration(c *syntax.DeclClause) {
	export := c.Variant.Value == "export"
	for _, a := range c.Args {
		if a.Name == nil { // an option: declare -x exports
			export = export || a.Value != nil && strings.Contains(a.Value.Lit(), "x") &&
				strings.HasPrefix(a.Value.Lit(), "-")
			continue
		}
		if !a.Naked {
			s.setVariable(a.Name.Value, s.assignedValue(a))
		}
		if export {
			s.exported[a.Name.Value] = true
		}
	}
}

// assignedValue returns the value that an assignment gives.
func (s *shell) assignedValue(a *syntax.Assign) value {
	if a.Value == nil && a.Array == nil {
		return knownValue("")
	}
	if a.Value == nil || a.Append || a.Index != nil {
		return unknownValue("variable " + a.Name.Value)
	}
	return s.oneWord(a.Value.Parts, unquoted)
}

// followCall follows a simple command: assignments alone, or a program with its arguments, for which assignments before
// it are variables.
func (s *shell) followCall(c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			s.setVariable(a.Name.Value, s.assignedValue(a))
		}
		return
	}
	vars := map[string]value{}
	for name, v := range s.vars {
		if s.exported[name] {
			vars[name] = v
		}
	}
	for _, a := range c.Assigns {
		vars[a.Name.Value] = s.assignedValue(a)
	}
	var words []value
	for _, arg := range c.Args {
		words = append(words, s.fieldsOf(arg)...)
	}
	s.run(words, vars)
}

// run follows the call of a program with its arguments (words) and variables. It notes a call of `ray start`, follows
// the script of a shell, both also behind other programs such as tini or env, and notes other programs, which may start
// Ray.
func (s *shell) run(words []value, vars map[string]value) {
	if len(words) == 0 || slices.Contains(neverLaunch, path.Base(words[0].text)) {
		return
	}
	switch first := words[0].text; first {
	case "eval":
		var texts []value
		for _, w := range words[1:] {
			texts = append(texts, w, knownValue(" "))
		}
		s.followScript(joinValues(texts...))
		return
	case "source", ".":
		if len(words) > 1 {
			s.found.unread = append(s.found.unread, first+" "+wordForMessage(words[1]))
		}
		return
	}
	script, file, found := shellScript(words)
	at := rayStartAt(words)
	vars = withAssigned(words, at, vars)
	switch {
	case found && file == "" && at < 0:
		inner := *s
		inner.vars, inner.exported = maps.Clone(vars), map[string]bool{}
		for name := range vars {
			inner.exported[name] = true
		}
		inner.followScript(script)
		s.found = inner.found
	case found && at < 0:
		s.found.programs = append(s.found.programs, file)
	case at >= 0:
		s.found.starts = append(s.found.starts, newStart(words[at:], vars))
	default:
		program := wordForMessage(words[0])
		if strings.HasPrefix(path.Base(program), "python") && len(words) > 1 {
			program += " " + wordForMessage(words[1])
		}
		s.found.programs = append(s.found.programs, program)
	}
}

// withAssigned returns vars with the NAME=VALUE words of env, sudo and the like added. These words end at start, where
// the words after `ray start` begin, or if that is negative at the first shell.
func withAssigned(words []value, start int, vars map[string]value) map[string]value {
	end := start
	if end < 0 {
		end = slices.IndexFunc(words, isShell)
	}
	if end < 0 {
		end = len(words)
	}
	out := maps.Clone(vars)
	for _, w := range words[:end] {
		if isAssignment(w) {
			name, text, _ := strings.Cut(w.text, "=")
			out[name] = value{text: text, why: w.why}
		}
	}
	return out
}

// isAssignment reports whether a word is NAME=VALUE. The value may look like a program: RAY_TMPDIR=/mnt/ray.
func isAssignment(w value) bool {
	name, _, ok := strings.Cut(w.text, "=")
	return ok && isName(name)
}

// isName reports whether a text can be a variable's name.
func isName(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// wordForMessage is a word for a message.
func wordForMessage(w value) string { return strings.ReplaceAll(w.text, unread, "…") }
