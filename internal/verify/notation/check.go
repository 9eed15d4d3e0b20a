package notation

import "fmt"

// CheckCertificates says what is wrong with the PEM for a trust store of a type; nil if all its certificates can vouch.
func CheckCertificates(store StoreType, material []byte) error {
	certificates, err := parsePEM(material)
	if err != nil {
		return err
	}
	for _, c := range certificates {
		if err := checkAnchor(store, c); err != nil {
			return fmt.Errorf("%s %w", describe(c), err)
		}
	}
	return nil
}
