package v1alpha1

// Verifier says who must have signed, and how that is proved.
//
// +kubebuilder:validation:XValidation:rule="has(self.notation) != has(self.cosign)",message="give each verifier exactly one kind: notation or cosign"
type Verifier struct {
	// The verifier's name, in the policy, in messages and reports.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Signatures of the Notary Project.
	// +optional
	Notation *NotationVerifier `json:"notation,omitempty"`
	// Signatures of Sigstore.
	// +optional
	Cosign *CosignVerifier `json:"cosign,omitempty"`
}

// NotationLevel says what of a signature must be in order besides its authenticity and integrity, which always must.
//
// +kubebuilder:validation:Enum=Strict;Permissive;Audit
type NotationLevel string

// The levels.
const (
	NotationStrict     NotationLevel = "Strict"
	NotationPermissive NotationLevel = "Permissive"
	NotationAudit      NotationLevel = "Audit"
)

// Revocation says what is made of the revocation of certificates.
//
// +kubebuilder:validation:Enum=Enforce;Log;Skip
type Revocation string

// The kinds of revocation checking.
const (
	RevocationEnforce Revocation = "Enforce"
	RevocationLog     Revocation = "Log"
	RevocationSkip    Revocation = "Skip"
)

// NotationVerifier verifies signatures of the Notary Project, in JWS and COSE envelopes.
//
// +kubebuilder:validation:XValidation:rule="self.trustStores.exists(s, s.type != 'TSA')",message="trustStores: a time-stamping authority signs no images; give a store of type CA or SigningAuthority as well"
type NotationVerifier struct {
	// Strict: everything is enforced. Permissive: expiry of the signature and of its certificates is reported only.
	// Audit: only authenticity and integrity are enforced. A revoked certificate fails at every level. Default Strict.
	// +optional
	// +kubebuilder:default=Strict
	Level NotationLevel `json:"level,omitempty"`
	// Enforce: a certificate whose revocation state cannot be found out does not pass. Log: it does, and is reported.
	// Skip: nobody is asked. Default Enforce.
	// +optional
	// +kubebuilder:default=Enforce
	Revocation Revocation `json:"revocation,omitempty"`
	// Whose signatures count: x509.subject and the attributes that the signing certificate must have, C, ST and O among
	// them; or * for everybody whom the trust stores vouch for.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(i, i == '*') || self.size() == 1",message="* means everybody whom the trust stores vouch for, so nothing can stand beside it: remove it, or remove the others"
	TrustedIdentities []TrustedIdentity `json:"trustedIdentities"`
	// The certificates that vouch for signers and for time stamps.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	TrustStores []TrustStore `json:"trustStores"`
}

// TrustedIdentity says whose signatures count.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self == '*' || self.matches('^x509[.]subject: *[^ ]')",message="write an identity as 'x509.subject: CN=release,O=Example,ST=WA,C=US', or * for everybody whom the trust stores vouch for"
type TrustedIdentity string

// TrustStoreType says what a trust store vouches for.
//
// +kubebuilder:validation:Enum=CA;TSA;SigningAuthority
type TrustStoreType string

// The types of trust stores.
const (
	TrustStoreCA               TrustStoreType = "CA"
	TrustStoreTSA              TrustStoreType = "TSA"
	TrustStoreSigningAuthority TrustStoreType = "SigningAuthority"
)

// TrustStore holds certificates that are trusted.
type TrustStore struct {
	// The store's name, in messages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// What its certificates vouch for. CA: signers. TSA: time stamps. SigningAuthority: services that sign for others.
	// +required
	Type TrustStoreType `json:"type"`
	// The certificates, in PEM; each entry may hold several.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Certificates []PEMSource `json:"certificates"`
}

// Material says where keys, certificates or a trust root are found: exactly one of inline, secretRef and configMapRef.
//
// +kubebuilder:validation:XValidation:rule="[has(self.inline), has(self.secretRef), has(self.configMapRef)].filter(given, given).size() == 1",message="give exactly one of inline, secretRef and configMapRef"
type Material struct {
	// The text itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Inline string `json:"inline,omitempty"`
	// A key of a Secret: in Gatehouse's namespace, or of a NamespacedExecutor in its own.
	// +optional
	SecretRef *KeyReference `json:"secretRef,omitempty"`
	// A key of a ConfigMap: in Gatehouse's namespace, or of a NamespacedExecutor in its own.
	// +optional
	ConfigMapRef *KeyReference `json:"configMapRef,omitempty"`
}

// PEMSource says where PEM blocks are found.
//
// +kubebuilder:validation:XValidation:rule="!has(self.inline) || self.inline.startsWith('-----BEGIN ')",message="inline: give PEM, beginning with its -----BEGIN line"
type PEMSource struct {
	Material `json:",inline"`
}

// Requirement says whether something must be there.
//
// +kubebuilder:validation:Enum=Required;Ignored
type Requirement string

// The requirements.
const (
	Required Requirement = "Required"
	Ignored  Requirement = "Ignored"
)

// CosignVerifier verifies signatures of Sigstore: by a key, or keyless by an identity that a certificate authority has
// vouched for at the time of signing. One key or identity is enough.
//
// +kubebuilder:validation:XValidation:rule="has(self.keys) || has(self.identities)",message="give keys, identities or both: without them nobody's signature would count"
// +kubebuilder:validation:XValidation:rule="!has(self.identities) || has(self.trustRoot)",message="identities are vouched for by a certificate authority: give its trustRoot (trusted_root.json)"
// +kubebuilder:validation:XValidation:rule="!has(self.identities) || !has(self.transparencyLog) || self.transparencyLog == 'Required' || (has(self.timestamps) && self.timestamps == 'Required')",message="identities need proof of when it was signed, because their certificates live for minutes: set transparencyLog or timestamps to Required"
// +kubebuilder:validation:XValidation:rule="has(self.trustRoot) || (has(self.transparencyLog) && self.transparencyLog == 'Ignored')",message="transparencyLog: Required needs the log's keys: give trustRoot (trusted_root.json), or set transparencyLog to Ignored"
// +kubebuilder:validation:XValidation:rule="has(self.trustRoot) || !has(self.timestamps) || self.timestamps == 'Ignored'",message="timestamps: Required needs the timestamp authority's certificates: give trustRoot (trusted_root.json), or set timestamps to Ignored"
type CosignVerifier struct {
	// Public keys; each of them is tried.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Keys []CosignKey `json:"keys,omitempty"`
	// Who may have signed without a key of their own.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Identities []CosignIdentity `json:"identities,omitempty"`
	// The authorities and logs that are trusted: a Sigstore trusted_root.json.
	// +optional
	TrustRoot *Material `json:"trustRoot,omitempty"`
	// Required: a signature counts only with an entry in a transparency log. Default Required.
	// +optional
	// +kubebuilder:default=Required
	TransparencyLog Requirement `json:"transparencyLog,omitempty"`
	// Required: a signature counts only with the time stamp of an authority. Default Ignored.
	// +optional
	// +kubebuilder:default=Ignored
	Timestamps Requirement `json:"timestamps,omitempty"`
}

// CosignKey is a public key: ECDSA, RSA or Ed25519, in PEM.
type CosignKey struct {
	// The key's name, in messages and reports.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name      string `json:"name"`
	PEMSource `json:",inline"`
}

// CosignIdentity is who a signing certificate was issued to, and by whom that was established.
//
// +kubebuilder:validation:XValidation:rule="has(self.issuer) != has(self.issuerRegExp)",message="give exactly one of issuer and issuerRegExp: a subject means something only together with who vouches for it"
// +kubebuilder:validation:XValidation:rule="has(self.subject) != has(self.subjectRegExp)",message="give exactly one of subject and subjectRegExp: without it everybody whom the issuer knows could sign"
type CosignIdentity struct {
	// The OpenID Connect issuer, as https://token.actions.githubusercontent.com.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Issuer string `json:"issuer,omitempty"`
	// A regular expression (RE2) that the whole issuer must match.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	IssuerRegExp string `json:"issuerRegExp,omitempty"`
	// The subject alternative name: a workflow's URL, an e-mail address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Subject string `json:"subject,omitempty"`
	// A regular expression (RE2) that the whole subject must match.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	SubjectRegExp string `json:"subjectRegExp,omitempty"`
	// The repository whose workflow signed, as https://github.com/example/app: a workflow that others share is told apart
	// by nothing else.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	SourceRepository string `json:"sourceRepository,omitempty"`
}

// Policy says how many verifiers are enough.
//
// +kubebuilder:validation:XValidation:rule="[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].all(i, i >= self.groups.size() || self.groups[i].of.all(m, ![0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].exists(j, j >= i && j < self.groups.size() && self.groups[j].name == m)))",message="groups: a member is the group itself or a later one; groups refer to earlier groups only, and the last one decides"
// +kubebuilder:validation:XValidation:rule="self.groups.all(g, g.name == self.groups[self.groups.size()-1].name || self.groups.exists(e, g.name in e.of))",message="groups: a group is a member of no later one and would decide nothing; the last group decides: make it a member of a later one, or remove it"
type Policy struct {
	// Each passes when so many of its members do. Members are verifiers and earlier groups; the last group decides.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Groups []PolicyGroup `json:"groups"`
}

// PolicyGroup passes when so many of its members pass, each by another signer.
//
// +kubebuilder:validation:XValidation:rule="self.min <= self.of.size()",message="min is more than the group has members, so it could never pass; lower min, or add members to of"
type PolicyGroup struct {
	// The group's name, for later groups and messages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// How many members must pass.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Min int32 `json:"min"`
	// The members: names of verifiers and of earlier groups, none twice.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Of []string `json:"of"`
}
