//go:build !linux

package docker

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Elsewhere there is no tee, and Docker runs its containers on Linux anyway.
var errPlatform = fmt.Errorf("the Docker plugin reads the pipes of containers on Linux only: %w", errors.ErrUnsupported)

type pipe struct{ size, grown int }

func openPipe(string) (*pipe, error)         { return nil, errPlatform }
func (*pipe) grow(int)                       {}
func (*pipe) close() error                   { return nil }
func (*pipe) wait(int) bool                  { return false }
func (*pipe) deadline(time.Time)             {}
func (*pipe) waiting() int                   { return 0 }
func (*pipe) look(*viewer, int) (int, error) { return 0, errPlatform }
func (*pipe) take([]byte) error              { return errPlatform }
func newViewer() (*viewer, error)            { return nil, errPlatform }
func (*viewer) close()                       {}
func pipeLimit() int                         { return 0 }

type viewer struct{ raw []byte }

func newSpareListener(l *net.UnixListener) net.Listener { return l }
