package main

import (
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/initalloc"
)

// TestInit: a package takes little memory before main starts.
func TestInit(t *testing.T) { initalloc.Bound(t, 64<<10) }
