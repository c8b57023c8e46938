package blob

import "context"

// DeleteBelow deletes all objects below a prefix. All are listed before any is deleted, so that no listing goes on
// among objects that disappear. It ends with the first error, and the rest stays.
func DeleteBelow(ctx context.Context, store Store, prefix string) error {
	var keys []string
	for o, err := range store.List(ctx, prefix, ListOptions{}) {
		if err != nil {
			return err
		}
		keys = append(keys, o.Key)
	}
	for _, key := range keys {
		if err := store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// DeleteOrphans deletes all objects below a prefix if there are none below owner, about which they are: who stores
// something about what somebody else removes calls it afterwards.
func DeleteOrphans(ctx context.Context, store Store, prefix, owner string) error {
	for _, err := range store.List(ctx, owner, ListOptions{}) {
		return err // nil if the owner has an object; else the error of the listing
	}
	return DeleteBelow(ctx, store, prefix)
}
