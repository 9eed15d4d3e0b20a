// Package strictjson reads JSON that all readers read alike.
//
// What is signed is read by more than one program, and where two of them read it in
// two ways, what one of them verified is not what the other one acts on. So everything
// that a signature is made of passes here: one value, in UTF-8, nested to a bound, in
// which no object has a key twice, not even in another case, since some readers take
// the one for the other.
//
// Nearly all JSON is plain, which a glance over its bytes shows. What is not is read
// token by token, which decides, and says what is wrong.
package strictjson
