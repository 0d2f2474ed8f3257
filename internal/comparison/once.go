package comparison

import "errors"

// once is a text flag that may be given once. Where the last of several would count, the
// others would be forgotten without a word.
type once struct {
	text  *string
	given bool
}

// String implements pflag.Value.
func (o *once) String() string {
	if o.text == nil {
		return ""
	}
	return *o.text
}

// Set implements pflag.Value.
func (o *once) Set(text string) error {
	if o.given {
		return errors.New("it is given twice")
	}
	*o.text, o.given = text, true
	return nil
}

// Type implements pflag.Value.
func (o *once) Type() string { return "string" }
