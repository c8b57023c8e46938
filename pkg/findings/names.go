package findings

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

var (
	// taskInText matches how Ray's messages name a task: by its ID alone.
	taskInText = lazyregexp.New(`(?:[Tt]ask: )?TaskID\(([0-9a-f]{48})\)`)
	// objectInText matches how they name an object that is lost: its ID begins with that of the task that made it.
	objectInText = lazyregexp.New(`\bobject ([0-9a-f]{48})[0-9a-f]{8}\b`)
	// ownerInText matches what they say of an actor whose owner ended.
	ownerInText = lazyregexp.New(`its owner has died\. Owner Id: ([0-9a-f]{56})(?: Owner Ip address: \S*)?(?: Owner worker exit type: \w+ Worker exit detail:)? ?`)
)

// withNames returns a finding's title with names in place of the IDs of tasks, objects and owners. An ID of which
// nothing is known stays.
func (b *builder) withNames(f *finding) string {
	title := replaceIDs(f.Title, "TaskID(", taskInText, func(id string) string {
		return encloseIfAny("task ", b.taskNamed("task_id", id), "")
	})
	title = replaceIDs(title, "its owner has died.", ownerInText, func(id string) string {
		return encloseIfAny("its owner, ", b.processName(id), ", has died"+b.wantedEnd(id)+". ")
	})
	return replaceIDs(title, " object ", objectInText, func(id string) string {
		name := encloseIfAny("an object of ", b.taskNamed("task_id", id), "")
		if f.raised.Type != "OwnerDiedError" {
			return name
		}
		for _, e := range f.Evidence {
			if m := ownerWorker().FindStringSubmatch(e.Text); m != nil {
				owner := b.processName(m[1])
				return encloseIfAny(cmp.Or(name, "an object")+" whose owner, ", owner, ", had ended"+b.wantedEnd(m[1]))
			}
		}
		return name
	})
}

// wantedEnd returns why the actor that ran in a worker (its ID in hex) had ended, as the end of a title: ", because …".
// It is "" if no actor ran there, or if nobody wanted its end: then a finding tells of it.
func (b *builder) wantedEnd(id string) string {
	worker, err := rayid.Parse[rayid.Worker](id)
	if err != nil {
		return ""
	}
	a := b.actorIn(worker)
	if a == nil {
		return ""
	}
	state, _ := moment.ActorAt(a, b.moment.At)
	why, told := strings.CutPrefix(deathSentence(state.Cause().Text), deadBecause)
	if !told || !wasIntendedDeath(state.Cause()) {
		return ""
	}
	return ", because" + strings.TrimSuffix(why, ".")
}

// onlyName returns the first group of all matches, if it is the same in all of them; "" otherwise.
func onlyName(matches [][]string) (name string) {
	for _, m := range matches {
		if name != "" && name != m[1] {
			return ""
		}
		name = m[1]
	}
	return name
}

// encloseIfAny returns a text with what comes before and after it; "" if the text is empty.
func encloseIfAny(before, text, after string) string {
	if text == "" {
		return ""
	}
	return before + text + after
}

// replaceIDs replaces each match of an expression in a text by the name that named returns for the match's first group;
// a match without a name stays. sign is in each match, and is quicker to search for than the expression.
func replaceIDs(text, sign string, expression func() *regexp.Regexp, named func(id string) string) string {
	if !strings.Contains(text, sign) {
		return text
	}
	return expression().ReplaceAllStringFunc(text, func(match string) string {
		return cmp.Or(named(expression().FindStringSubmatch(match)[1]), match)
	})
}

// taskNamed returns the name of the first attempt for which a field of the table of tasks is id; "" if there is none.
func (b *builder) taskNamed(field, id string) string {
	for _, a := range b.selectAttempts(b.moment.At, field, id, 1) {
		return a.name()
	}
	return ""
}

const maxNamed = 20 // processes that one report looks for

// processName says what ran in a worker's process (its ID in hex): a driver, an actor, or tasks of a function. It is ""
// if that is not known, or if maxNamed processes were looked for already.
func (b *builder) processName(id string) string {
	name, known := b.processNames[id]
	worker, err := rayid.Parse[rayid.Worker](id)
	if err != nil || known || len(b.processNames) >= maxNamed {
		return name
	}
	isDriver := func(j job) bool { return id == moment.DriverWorker(j.id) }
	if i := slices.IndexFunc(b.jobs, isDriver); i >= 0 {
		name = "the driver of job " + b.jobs[i].name()
	} else if a := b.actorIn(worker); a != nil {
		name = "actor " + actorName(a)
	} else {
		name = encloseIfAny("a worker that ran ", b.taskNamed("worker_id", id), "")
	}
	b.processNames[id] = name
	return name
}

// actorIn returns the actor that runs or ran in a worker's process; nil if there is none.
func (b *builder) actorIn(worker rayid.Worker) *entities.Actor { return b.actorsByWorker()[worker] }

// readActorsByWorker returns the actors by the processes in which they run or ran; of several the first one.
func (b *builder) readActorsByWorker() map[rayid.Worker]*entities.Actor {
	of := map[rayid.Worker]*entities.Actor{}
	for i := range b.session.Actors {
		a := &b.session.Actors[i]
		if state, existed := moment.ActorAt(a, b.moment.At); existed {
			for _, p := range append(state.FormerProcesses, state.Process()) {
				of[p.Worker] = cmp.Or(of[p.Worker], a)
			}
		}
	}
	return of
}

// Names that people gave, for the names of what Ray's libraries run.

var (
	// trialFrame matches the frame of Tune that calls a user's function, that of tune.with_parameters, and the one
	// below it.
	trialFrame = lazyregexp.New(`function_trainable\.py", line \d+, in _trainable_func\n(?:    [^\n]*\n)*(?:  File "[^"\n]*trainable/util\.py", line \d+, in inner\n(?:    [^\n]*\n)*)?  File "[^"\n]*", line \d+, in (\w{1,100})`)
	// trialFailed matches what Tune prints of a trial that failed: its function's or class's name, before its ID. So
	// does trialNamed of any that starts, fails or ends, and trialPending of one that waits, in Tune's table.
	trialFailed  = lazyregexp.New(`Trial task failed for trial (\w{1,100})_[0-9a-f]{5,8}_\d{5}\s`)
	trialNamed   = lazyregexp.New(`Trial (\w{1,100})_[0-9a-f]{5,8}_\d{5} `)
	trialPending = lazyregexp.New(`(?m)^\W{0,4}(\w{1,100})_[0-9a-f]{5,8}_\d{5} +PENDING\b`)
	// ofTrial matches what has no name of the user's class or function: the actor of a trial, and its methods, also
	// several of them.
	ofTrial = lazyregexp.New(`(?:\bActor )?\b(?:ImplicitFunc|` +
		`ResourceTrainable)\b(?:\.\w+)?(?:, (?:ImplicitFunc|ResourceTrainable)\.\w+)*`)
)

// unnamedGroup is between the ID of a placement group without a name, as Train and Tune make them, and its job's name.
// No Ray up to 2.60 tells who made a group, so the program's own are called by its Train run or its trials, too.
const unnamedGroup = "… of job "

// controllerRun and trialRun are the tasks that run a Train run, and a trial of Tune that is a function.
const controllerRun, trialRun = "TrainController.run", "ImplicitFunc.train"

// renamed holds what in titles is replaced by the words of people.
var renamed = []struct {
	from func() *regexp.Regexp
	to   string
}{
	{lazyregexp.New(`(?:\w+\.)*\w+\.<locals>\.`), ""}, // the functions in which a class or a function was defined
	{lazyregexp.New(`(?:\b[Aa]ctor )?(?:\bSERVE_REPLICA::[^:\s]*:)?\bServeReplica:([^:\s]{1,200}):([^\s:.,()]{1,200})(?: \(SERVE_REPLICA::[^)\s]*\))?(?:\.\w+)?`),
		"deployment $2 of application $1"},
	{lazyregexp.New(`\bProxyActor(?:\.\w+| \(SERVE_PROXY_ACTOR-[0-9a-f]+\))`), "Serve's proxy"},
	{lazyregexp.New(`\bServeController\.\w+`), "Serve's controller"},
	{lazyregexp.New(`\bRayTrainWorker\._RayTrainWorker__execute\b`), "a Train worker"},
	{lazyregexp.New(`\bTrainController\.run\b`), "a Train run"},
	{lazyregexp.New(`\bActor (ImplicitFunc|ResourceTrainable)\b`), "Tune trial (actor $1)"},
	{lazyregexp.New(`\b(?:ImplicitFunc|ResourceTrainable)\.\w+`), "a Tune trial"},
	// Dask's keys: ('sum-aggregate-<32 digits>', 0, 1), and share-<UUID>
	{lazyregexp.New(`\bdask:\(?'?([\w.-]{1,100}?)-(?:[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f-]{27})(?:'(?:, \d+)*\))?`), "dask:$1"},
}

// withPlainNames returns a text in which people's words stand for the names of what Ray's libraries run: "deployment d
// of application a" for ServeReplica:a:d.
func withPlainNames(text string) string {
	for _, r := range renamed {
		text = r.from().ReplaceAllString(text, r.to)
	}
	return text
}

// plainTitle returns a finding's title with the names that people gave to runs, trials, deployments and applications.
func (b *builder) plainTitle(f *finding) string {
	title := f.Title
	if run := b.trainRuns[f.job]; run != "" {
		title = strings.ReplaceAll(title, controllerRun, "Train run "+run)
		title = strings.Replace(title, unnamedGroup, "… of Train run "+run+" in job ", 1)
	}
	if name := b.trialName(f); name != "" {
		title = ofTrial().ReplaceAllLiteralString(title, "Tune trial "+name)
	}
	title = withPlainNames(title)
	if first, size := utf8.DecodeRuneInString(title); strings.HasPrefix(title, "deployment ") ||
		strings.HasPrefix(title, "a T") {
		return string(unicode.ToUpper(first)) + title[size:]
	}
	return title
}

// trialName returns the name of the trials of Tune that failed in the job of a finding, as Tune printed it, or else of
// those that the finding is about, or of all trials there, as their actors or Tune show it. It is "" if the title is
// about no trial, or if trials have several names.
func (b *builder) trialName(f *finding) string {
	j := b.jobOfID(f.job)
	if j == nil || !ofTrial().MatchString(f.Title) {
		return ""
	}
	log := b.driverLog(j).text
	all := trialFailed().FindAllStringSubmatch(log, -1)
	if all == nil {
		all = b.trialActors(f)
	}
	if all == nil {
		all = trialNamed().FindAllStringSubmatch(log, -1)
	}
	return onlyName(all)
}

// nameTrials names, in a title about a placement group without a name, the trials of Tune that wait in the job, if all
// have one name.
func (b *builder) nameTrials(f *finding) {
	j := b.jobOfID(f.job)
	if j == nil || b.trainRuns[f.job] != "" || !strings.Contains(f.Title, unnamedGroup) {
		return
	}
	if name := onlyName(trialPending().FindAllStringSubmatch(b.driverLog(j).text, -1)); name != "" {
		f.Title = strings.Replace(f.Title, unnamedGroup, "… of Tune trial "+name+" in job ", 1)
	}
}

// trialActors returns the user's functions that the trials of a finding's job run, as matches of which the first group
// is the name: as the actor shows itself that the finding is about, or else as all trials do.
func (b *builder) trialActors(f *finding) (all [][]string) {
	for i := range b.session.Actors {
		a := &b.session.Actors[i]
		state, _ := moment.ActorAt(a, b.moment.At)
		if a.Class+".train" != trialRun || a.Job != f.job || state.Repr == "" {
			continue
		}
		shown := []string{"", output.Clip(state.Repr, maxName)}
		if f.isAbout("actor", a.ID.String()) {
			return [][]string{shown}
		}
		all = append(all, shown)
	}
	return all
}

// trialOf returns the user's function that a trial of Tune runs, from the traceback of its failure; "" if the text has
// none.
func trialOf(text string) string {
	if m := trialFrame().FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
