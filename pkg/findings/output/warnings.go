package output

import (
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

var (
	// pythonWarning matches what the module warnings prints, also with the mark of a worker before it.
	pythonWarning = lazyregexp.New(`(?m)^[^\n]{0,400}?\.py:\d{1,6}: \w*Warning: ([^\n]{1,1000})$`)
	// gpuWarning matches a warning that says why a program finds no GPU, or cannot use it.
	gpuWarning = lazyregexp.New(`\bCUDA initialization\b|(?i:\b(?:driver|CUDA version)\b.{0,60}\b(?:too old|outdated|insufficient|mismatch\w*)\b|` +
		`\bCUDA capability sm_\d+ is not compatible\b)`)
	// aboutGPU matches the exceptions that follow from it: "No CUDA GPUs are available".
	aboutGPU = lazyregexp.New(`(?i)\b(?:CUDA|GPUs?|NVIDIA|NCCL|NVML|kernel image|fp16|bf16|(?:half|mixed) precision)\b`)
	// versionWarning matches a warning that versions do not fit: "numpy>=1.22 is required".
	versionWarning = lazyregexp.New(`(?i)\bfrom version \S+ when using version\b|\bversion\b.{0,60}\bis required\b|\bversion mismatch\b|` +
		`\b(?:compiled|built) (?:with|against|using)\b.{0,60}\bversion\b|\bdoesn't match a supported version\b|\bnot compatible with\b`)
	// versionErrorType matches the types of the exceptions that follow from it.
	versionErrorType = lazyregexp.New(`^(?:\w*Import|ModuleNotFound|Attribute|Type|Value|Key)Error$`)
	longWord         = lazyregexp.New(`[A-Za-z]\w{4,}`)
)

// WarningAbout returns the last warning of Python at the end of a log that explains an exception: about GPUs if the
// exception is about one, or about versions of something that the exception names; "" if there is none.
func WarningAbout(log string, e Exception) string {
	said := e.String()
	all := pythonWarning().FindAllStringSubmatch(Printable(log[max(0, len(log)-maxLastText):]), -1)
	for _, m := range slices.Backward(all) {
		warning := m[1]
		aboutGPUs := gpuWarning().MatchString(warning) && aboutGPU().MatchString(said)
		aboutVersions := versionWarning().MatchString(warning) && versionErrorType().MatchString(e.Type) &&
			shareName(warning, e.Message)
		if aboutGPUs || aboutVersions {
			why, _, _ := strings.Cut(warning, " Please ") // what to do about it
			return Clip(why, MaxMessage)
		}
	}
	return ""
}

// shareName reports whether two texts have a word in common that is more than an English word for versions.
func shareName(a, b string) bool {
	common := []string{"version", "required", "using", "error", "import", "failed", "object", "module", "attribute"}
	words := longWord().FindAllString(strings.ToLower(b), 50)
	return slices.ContainsFunc(longWord().FindAllString(strings.ToLower(a), 200), func(word string) bool {
		return !slices.Contains(common, word) && slices.Contains(words, word)
	})
}
