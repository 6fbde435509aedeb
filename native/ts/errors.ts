/** Why a segment cannot be read. */
export type SegmentErrorCode =
  | 'not_found'
  | 'not_a_segment'
  | 'version'
  | 'damaged'
  | 'in_use'
  | 'system'
  | 'closed'
  | 'not_consuming'
  | 'addon_missing'
  | 'addon_stale';

/** An error about a segment or the addon; the message names the file and the remedy. */
export class SegmentError extends Error {
  override readonly name = 'SegmentError';
  readonly code: SegmentErrorCode;

  constructor(code: SegmentErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
