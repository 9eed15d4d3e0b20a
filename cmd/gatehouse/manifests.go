package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/gatehouse-dev/gatehouse/internal/lint"
)

// manifestFiles are how files of manifests end.
var manifestFiles = []string{".yaml", ".yml", ".json"}

// manifests reads every file that the arguments stand for, in order, and each once: a folder with what is mounted from a
// ConfigMap shows the same file under several names.
func manifests(ctx context.Context, args []string, in io.Reader, next func(name string, data []byte) error) error {
	m := manifestReader{ctx: ctx, next: next, read: map[string]bool{}}
	for _, arg := range args {
		if arg == "" {
			return usageError("the name of a file is empty; write one, or - for standard input")
		}
		if arg == "-" {
			data, err := interruptible(ctx, func() ([]byte, error) { return readBounded(in) })
			if err != nil {
				return usageError("read standard input: %w", err)
			}
			if err := next("<stdin>", data); err != nil {
				return err
			}
			continue
		}
		if err := m.path(arg); err != nil {
			return err
		}
	}
	return nil
}

type manifestReader struct {
	ctx  context.Context
	next func(name string, data []byte) error
	read map[string]bool // files by where their links lead
}

// path reads a file, whatever it is called, or those of a folder that are called as manifests are.
func (m *manifestReader) path(arg string) error {
	info, err := os.Stat(arg)
	switch {
	case err != nil:
		return unreadable(arg, err)
	case !info.IsDir():
		return m.file(arg)
	}
	found := false
	// Without the separator a link to a folder would not be entered.
	err = filepath.WalkDir(arg+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return unreadable(filepath.Clean(path), err)
		case entry.IsDir(), !slices.Contains(manifestFiles, filepath.Ext(path)):
			return nil
		}
		found = true
		// What is named can be a pipe; what is found must not make us wait.
		if info, err := os.Stat(path); err != nil {
			return unreadable(path, err)
		} else if !info.Mode().IsRegular() {
			return usageError("%s is no regular file; name it to have it read, or remove it", path)
		}
		return m.file(path)
	})
	if err == nil && !found {
		return usageError("%s: no file in it or below ends in .yaml, .yml or .json; name a folder with manifests, or a file", arg)
	}
	return err
}

func (m *manifestReader) file(path string) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		if m.read[target] {
			return nil
		}
		m.read[target] = true
	}
	data, err := interruptible(m.ctx, func() ([]byte, error) { return readFile(path, readBounded) })
	if err != nil {
		return usageError("%w", err)
	}
	return m.next(path, data)
}

// readFile reads a file by what keeps to a bound.
func readFile(path string, bounded func(io.Reader) ([]byte, error)) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer file.Close()
	data, err := bounded(file)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return data, nil
}

// readBounded reads a file that is as large as files of manifests are.
func readBounded(file io.Reader) ([]byte, error) { return readUpTo(lint.MaxFile, "split it", file) }

// tooLarge says that a file passes a bound, and what to do.
type tooLarge string

func (e tooLarge) Error() string { return string(e) }

// readUpTo reads no more than limit bytes.
func readUpTo(limit int, remedy string, file io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, tooLarge(fmt.Sprintf("it is larger than %d MiB; %s", limit>>20, remedy))
	}
	return data, nil
}

// unreadable says why a path that a person has named is not read, and what to do.
func unreadable(path string, err error) error {
	cause := err
	var about *fs.PathError
	if errors.As(err, &about) {
		cause = about.Err // the path is said already
	}
	remedy := "name one that can be read"
	var large tooLarge
	switch {
	case errors.As(cause, &large):
		return usageError("%s: %w", path, cause)
	case errors.Is(cause, fs.ErrNotExist), errors.Is(cause, syscall.ENOTDIR):
		remedy = "name one that is there"
	case errors.Is(cause, fs.ErrPermission):
		remedy = "let it be read by who runs this"
	case errors.Is(cause, syscall.EISDIR):
		remedy = "name a file"
	}
	return usageError("%s: %w; %s", path, cause, remedy)
}
