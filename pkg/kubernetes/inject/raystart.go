package inject

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// rayStart is one `ray start` command.
type rayStart struct {
	flags map[string]value // the last of each name, without dashes
	vars  map[string]value // variables that the command sees
	// unread names what may hold further flags, such as a variable.
	unread []string
}

func (s rayStart) isHead() bool { _, ok := s.flags["head"]; return ok }

// switches are the flags of `ray start` that take no value (ray/scripts/scripts.py).
var switches = []string{
	"head", "block", "no-redirect-output", "no-monitor", "ray-debugger-external", "disable-usage-stats",
	"enable-object-reconstruction",
	"enable-resource-isolation", "verbose", "v",
}

// newStart reads the flags in the words after `ray start`, in the forms --name=value and --name value. vars are the
// variables of the call.
func newStart(words []value, vars map[string]value) rayStart {
	s := rayStart{flags: map[string]value{}, vars: vars}
	for i := 0; i < len(words); i++ {
		w := words[i]
		name, given, assigned := strings.Cut(strings.TrimLeft(w.text, "-"), "=")
		switch {
		case !strings.HasPrefix(w.text, "-") || strings.Contains(name, unread): // no flag whose name is known
			if !w.isKnown() {
				s.unread = append(s.unread, w.why)
			}
		case assigned:
			s.flags[name] = value{text: given, why: w.why}
		case slices.Contains(switches, name) || i+1 == len(words) || strings.HasPrefix(words[i+1].text, "--"): // alone
			s.flags[name] = knownValue("true")
		default:
			i++
			s.flags[name] = words[i]
		}
	}
	return s
}

// launch is what a container runs, as far as its manifest says.
type launch struct {
	starts []rayStart
	vars   map[string]value // at the end of the container's own command, for a start that follows it
	// unread names scripts that may start Ray or set its variables.
	unread []string
	// programs are the commands that ran, for a warning if none of them starts Ray.
	programs []string
}

// startOf returns the call of `ray start` that counts for the role: the last one of this role, since a script may hold
// those of head and workers, or else the last one. found is false if there is no call.
func (l launch) startOf(role string) (start rayStart, found bool) {
	for _, s := range slices.Backward(l.starts) {
		if s.isHead() == (role == roleHead) {
			return s, true
		}
	}
	if len(l.starts) == 0 {
		return rayStart{}, false
	}
	return l.starts[len(l.starts)-1], true
}

// generatedVariable holds the command that KubeRay makes of rayStartParams, for people's own commands.
const generatedVariable = "KUBERAY_GEN_RAY_START_CMD"

// kubeRayCommand returns the command that KubeRay makes of rayStartParams (ray-operator/controllers/ray/common/pod.go,
// convertParamMap). A parameter that is true becomes a flag alone, one that is false is left out, except for the flags
// that take such a value.
func kubeRayCommand(role string, params map[string]any) string {
	command := "ray start"
	if role == roleHead {
		command += " --head"
	}
	if _, ok := params["dashboard-host"]; !ok && role == roleHead {
		command += " --dashboard-host=0.0.0.0"
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		given := scalarText(params[name])
		isBool := strings.EqualFold(given, "true") || strings.EqualFold(given, "false")
		switch {
		case !isBool || name == "log-color" || name == "include-dashboard" || name == "include-log-monitor":
			command += " --" + name + "=" + given
		case strings.EqualFold(given, "true"):
			command += " --" + name
		}
	}
	return command
}

// launchOf finds out how a group's Ray container starts Ray. overwrite says that KubeRay's annotation makes it leave
// the container's command alone.
func launchOf(ray map[string]any, env environment, role string, params map[string]any, overwrite bool) (launch, error) {
	var vector []string
	for _, key := range []string{"command", "args"} {
		words, err := list(ray, key)
		if err != nil {
			return launch{}, err
		}
		for _, w := range words {
			vector = append(vector, scalarText(w))
		}
	}
	sh := newShell(env)
	command := kubeRayCommand(role, params)
	if joined := strings.Join(vector, " "); !overwrite && !strings.Contains(joined, "ray start") {
		// KubeRay runs the container's words and then its own command in one shell.
		sh.followScript(env.expand(joined))
		sh.followScript(env.expand(command))
		return sh.launch(), nil
	}
	sh.vars[generatedVariable] = env.expand(command)
	vars := environment{vars: sh.vars, from: env.from}
	words := make([]value, len(vector))
	for i, w := range vector {
		words[i] = vars.expand(w)
	}
	sh.run(words, sh.vars)
	for _, w := range words {
		if len(sh.found.starts) == 0 && strings.Contains(w.text, "ray start") {
			sh.followScript(w) // a shell's text for a program that is not known
		}
	}
	return sh.launch(), nil
}

var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh"}

// neverLaunch are programs that, as scripts call them, run none of the commands that their arguments name.
var neverLaunch = []string{"echo", "printf", "grep", "pgrep", "pkill", "kill", "ps", "which", "command", "type", "man",
	"trap"}

// rayStartAt returns the index of the first word after `ray start`, -1 if the words do not call it. Other programs may
// stand before it, and flags between the two words, as in "tini -- ray --logging-level=info start --head". It may be
// "python -m ray.scripts.scripts start", too.
func rayStartAt(words []value) int {
	for i, w := range words {
		if path.Base(w.text) != "ray" && !(i > 0 && words[i-1].text == "-m" && w.text == "ray.scripts.scripts") {
			continue
		}
		for j := i + 1; j < len(words); j++ {
			if words[j].text == "start" {
				return j + 1
			}
			if !strings.HasPrefix(words[j].text, "-") {
				break
			}
		}
	}
	return -1
}

func isShell(w value) bool { return slices.Contains(shells, path.Base(w.text)) && !isAssignment(w) }

// shellScript finds a shell among the words, and the script that it runs: the text after -c, or else a file. ok is
// false if there is no shell or no script.
func shellScript(words []value) (script value, file string, ok bool) {
	at := slices.IndexFunc(words, isShell)
	if at < 0 {
		return value{}, "", false
	}
	text := false // -c was among the options
	for i := at + 1; i < len(words); i++ {
		w := words[i].text
		switch {
		case w == "--rcfile" || w == "--init-file":
			i++ // its file
		case strings.HasPrefix(w, "-") && w != "-" || strings.HasPrefix(w, "+"): // such as -lc, or +x
			text = text || hasShort(w, "c")
			if hasShort(w, "oO") { // its value follows, as in -o pipefail
				i++
			}
		case text:
			return words[i], "", true
		default:
			return value{}, w, true
		}
	}
	return value{}, "", false
}

// hasShort reports whether a word of a shell's options, which may stand together as in -lc, has one of letters: with c,
// the script's text follows; with o or O, a word of theirs does.
func hasShort(word, letters string) bool {
	return !strings.HasPrefix(word, "--") && strings.ContainsAny(word, letters)
}
