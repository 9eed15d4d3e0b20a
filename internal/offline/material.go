package offline

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gatehouse-dev/gatehouse/internal/executor"
)

// maxKey bounds one key of a Secret or ConfigMap, in bytes, as etcd does.
const maxKey = 1 << 20

// maxKeys bounds how many keys are read of one.
const maxKeys = 1024

// Folder reads what Executors name from files DIR/NAME/KEY, as a Secret or a
// ConfigMap called NAME would be mounted. An empty DIR holds nothing. Of what cannot
// be read the material holds why: whoever names it says for what.
func Folder(dir string, refs []executor.Ref) (executor.Material, error) {
	material := executor.Material{}
	if dir == "" {
		return material, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("--secret-dir %s: %w; name the folder that holds Secrets and ConfigMaps as files NAME/KEY", dir, cause(err))
	}
	defer root.Close()
	for _, ref := range refs {
		object, err := readFolder(root, ref)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			object = executor.Object{Err: fmt.Errorf("cannot be read from %s: %w", filepath.Join(dir, ref.Name), err)}
		}
		material[ref] = object
	}
	return material, nil
}

// cause is what is wrong with a path, without the path, which is said already.
func cause(err error) error {
	var about *fs.PathError
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}

func readFolder(root *os.Root, ref executor.Ref) (executor.Object, error) {
	if info, err := root.Stat(ref.Name); err != nil {
		return executor.Object{}, unreadable(err)
	} else if !info.IsDir() { // a pipe would make us wait
		return executor.Object{}, errors.New("it is no folder; make it one, with a file for each key")
	}
	folder, err := root.Open(ref.Name)
	if err != nil {
		return executor.Object{}, unreadable(err)
	}
	defer folder.Close()
	names, err := folder.Readdirnames(maxKeys)
	if err != nil && !errors.Is(err, io.EOF) {
		return executor.Object{}, unreadable(err)
	}
	object := executor.Object{Data: map[string][]byte{}}
	for _, name := range names {
		if name[0] == '.' && name != corev1.DockerConfigJsonKey {
			continue // a mounted Secret has such beside its keys
		}
		content, err := readKey(root, filepath.Join(ref.Name, name))
		if err != nil {
			return executor.Object{}, err
		}
		object.Data[name] = content
	}
	if _, ok := object.Data[corev1.DockerConfigJsonKey]; ok && ref.Kind == executor.Secret {
		object.Type = corev1.SecretTypeDockerConfigJson
	}
	return object, nil
}

func readKey(root *os.Root, path string) ([]byte, error) {
	if info, err := root.Stat(path); err != nil {
		return nil, fmt.Errorf("%s: %w; put the content there, in a file that can be read", filepath.Base(path), hidden(err))
	} else if !info.Mode().IsRegular() { // a pipe would make us wait
		return nil, fmt.Errorf("%s is no regular file; write the content into one", filepath.Base(path))
	}
	file, err := root.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; let it be read", filepath.Base(path), hidden(err))
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxKey+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w; let it be read", filepath.Base(path), hidden(err))
	}
	if len(content) > maxKey {
		return nil, fmt.Errorf("%s is larger than 1 MiB; keep to what a Secret can hold", filepath.Base(path))
	}
	return content, nil
}

// unreadable is why a folder is not read; that it does not exist stays what it is.
func unreadable(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w; let it be read", cause(err))
}

// hidden is a cause that is not taken for the absence of the whole: a file that is
// listed and leads nowhere is a fault of it.
func hidden(err error) error { return errors.New(cause(err).Error()) }

// object reads a manifest of a Secret or a ConfigMap.
func object(manifest map[string]any) (executor.Object, error) {
	made := executor.Object{Data: map[string][]byte{}}
	kind, _ := manifest["type"].(string)
	made.Type = corev1.SecretType(kind)
	for _, field := range []string{"data", "binaryData", "stringData"} {
		entries, _ := manifest[field].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			text, ok := entries[key].(string)
			if !ok {
				return made, fmt.Errorf("%s.%s is no text; write it in quotation marks", field, key)
			}
			content := []byte(text)
			if field == "binaryData" || field == "data" && manifest["kind"] == string(executor.Secret) {
				decoded, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(content)))
				if err != nil {
					return made, fmt.Errorf("%s.%s is not base64; encode it, or use stringData", field, key)
				}
				content = decoded
			}
			made.Data[key] = content
		}
	}
	return made, nil
}
