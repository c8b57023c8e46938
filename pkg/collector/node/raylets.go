package node

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Raylets returns the sessions whose raylets run on this node (in this network namespace), each with Ray's temporary
// folder, as Ray sees it. It is nil on other systems than Linux.
//
// A raylet listens on {session}/sockets/raylet until it ends, even if it is killed; on raylet.1, raylet.2 and so on if
// there was one before it in the session's folder (ray/_private/node.py). The kernel's list of such sockets is read
// instead of connecting to the socket: the containers of a pod share the list but perhaps not the user, and a busy
// raylet need not answer.
func Raylets() (map[string]string, error) {
	list, err := os.Open("/proc/net/unix")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // not Linux
	}
	if err != nil {
		return nil, fmt.Errorf("look for the raylet's socket: %w", err)
	}
	defer list.Close()
	folders, err := rayletSockets(list)
	if err != nil {
		return nil, fmt.Errorf("look for the raylet's socket: %w", err)
	}
	return folders, nil
}

// Running says whether the raylet of a session runs on this node.
func Running(session string) (bool, error) {
	running, err := Raylets()
	return running[session] != "", err
}

// acceptsFlag is the flag of a socket that takes connections (__SO_ACCEPTCON in the kernel's net.h).
const acceptsFlag = "00010000"

// rayletSockets finds the sockets on which raylets listen, {Ray's temporary folder}/{session}/sockets/raylet, in the
// kernel's list. The columns are Num, RefCount, Protocol, Flags, Type, St, Inode, Path.
func rayletSockets(list io.Reader) (map[string]string, error) {
	folders := make(map[string]string)
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		columns := strings.Fields(lines.Text())
		if len(columns) < 8 || columns[3] != acceptsFlag {
			continue
		}
		sockets, socket := path.Split(strings.Join(columns[7:], " ")) // it may have spaces
		if socket != "raylet" && !strings.HasPrefix(socket, "raylet.") {
			continue
		}
		session, folder := path.Split(path.Clean(sockets))
		if name := path.Base(session); folder == "sockets" && IsSession(name) {
			folders[name] = path.Dir(path.Clean(session))
		}
	}
	return folders, lines.Err()
}
