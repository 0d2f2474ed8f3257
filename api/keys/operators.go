package keys

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
)

// Operators are who may use an admin port. They do not change.
type Operators struct{ all []operator }

type operator struct {
	name string
	sum  [sha256.Size]byte
}

// NewOperators returns the operators who have the tokens of these keys, of which only names and
// hashes count. A hash that is none lets nobody in.
func NewOperators(all []Key) *Operators {
	o := new(Operators)
	for _, k := range all {
		one := operator{name: k.Name}
		if n, err := hex.Decode(one.sum[:], []byte(k.TokenSHA256)); err == nil && n == len(one.sum) {
			o.all = append(o.all, one)
		}
	}
	return o
}

// Some reports whether there is anybody.
func (o *Operators) Some() bool { return len(o.all) > 0 }

// Who says whose token it is. The time that takes depends on no token that is good.
func (o *Operators) Who(token string) (name string, known bool) {
	sum := sha256.Sum256([]byte(token))
	for i := range o.all {
		if subtle.ConstantTimeCompare(sum[:], o.all[i].sum[:]) == 1 {
			name, known = o.all[i].name, true
		}
	}
	return name, known
}
