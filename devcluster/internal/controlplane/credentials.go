package controlplane

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gatehouse-dev/gatehouse/devcluster/internal/workdir"
)

// Names of the files in the working directory.
const (
	KubeconfigFile = "kubeconfig" // for people and tests: an administrator's
	AuditLog       = "audit.log"

	pkiDir                = "pki"
	certificateFile       = pkiDir + "/apiserver.crt" // the server's, followed by the CA that signed it
	caFile                = pkiDir + "/ca.crt"
	tokensFile            = "tokens.csv"
	serviceAccountKeyFile = "sa.key"
	auditPolicyFile       = "audit-policy.yaml"
)

// auditPolicy records who wrote what: metadata of every mutating request, once
// it has been answered, and nothing else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
`

// writeSecrets makes the key that signs service account tokens and the token
// of the administrator, which it returns.
func writeSecrets(dir *workdir.Dir) (token string, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(dir.File(serviceAccountKeyFile), block, 0o600); err != nil {
		return "", err
	}
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	token = hex.EncodeToString(random)
	line := token + `,admin,admin,"system:masters"` + "\n"
	if err := os.WriteFile(dir.File(tokensFile), []byte(line), 0o600); err != nil {
		return "", err
	}
	return token, os.WriteFile(dir.File(auditPolicyFile), []byte(auditPolicy), 0o600)
}

// writeKubeconfig writes the administrator's kubeconfig and loads it back, so
// that what is used here is what everybody else will use.
func writeKubeconfig(dir *workdir.Dir, server, token string) (*rest.Config, error) {
	ca, err := writeCA(dir)
	if err != nil {
		return nil, err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["devcluster"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	c.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["devcluster"] = &clientcmdapi.Context{Cluster: "devcluster", AuthInfo: "admin"}
	c.CurrentContext = "devcluster"
	if err := clientcmd.WriteToFile(*c, dir.File(KubeconfigFile)); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", dir.File(KubeconfigFile))
	if err != nil {
		return nil, err
	}
	config.UserAgent = "devcluster"
	config.QPS = -1 // no limit: it is our own server
	return config, nil
}

// writeCA keeps the CA certificate of the server's chain in a file of its own,
// for those who want a bundle of CAs and nothing else.
func writeCA(dir *workdir.Dir) ([]byte, error) {
	chain, err := os.ReadFile(dir.File(certificateFile))
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", certificateFile, err)
		}
		if cert.IsCA {
			ca := pem.EncodeToMemory(block)
			return ca, os.WriteFile(dir.File(caFile), ca, 0o600)
		}
	}
	return nil, fmt.Errorf("%s holds no CA certificate", certificateFile)
}
