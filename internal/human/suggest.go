package human

import "strings"

// maxSuggested is how long a name is at most, in bytes, that is compared with others.
const maxSuggested = 100

// Suggest is DidYouMean of the nearest of some names.
func Suggest(typed string, names []string) string { return DidYouMean(Nearest(typed, names)) }

// DidYouMean returns " (did you mean NAME?)"; "" for no name.
func DidYouMean(name string) string {
	if name == "" {
		return ""
	}
	return " (did you mean " + name + "?)"
}

// Nearest returns the name that is most like a mistyped one, whatever the case; "" if none is like it. A name counts as
// like it if at most a quarter of the letters are wrong, or one.
func Nearest(typed string, names []string) string {
	best, like := max(1, len(typed)/4)+1, ""
	for _, name := range names {
		if name == "" || max(len(name), len(typed)) > maxSuggested {
			continue
		}
		if d := typoDistance(strings.ToLower(typed), strings.ToLower(name)); d < best {
			best, like = d, name
		}
	}
	return like
}

// typoDistance counts the letters that are wrong, missing, too many or swapped with the next between two texts (optimal
// string alignment distance).
func typoDistance(a, b string) int {
	// row[j] is the distance of the first letters of a, one more in each round, from the first j letters of b; above is
	// the row of one letter less of a, twoAbove of two less.
	twoAbove, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		twoAbove, above, row = above, row, twoAbove
		row[0] = i + 1
		for j := range len(b) {
			wrong := 1
			if a[i] == b[j] {
				wrong = 0
			}
			row[j+1] = min(above[j]+wrong, above[j+1]+1, row[j]+1) // wrong or equal, too many, missing
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], twoAbove[j-1]+1) // swapped
			}
		}
	}
	return row[len(b)]
}
