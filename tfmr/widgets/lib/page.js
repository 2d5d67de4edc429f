// What the figures of one page share.

/**
 * Values by name that several figures use, such as the models that were loaded. Each figure has its
 * own copy of all modules but those of this folder.
 */
export const shared = new Map();
