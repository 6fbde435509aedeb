export { SegmentError, type SegmentErrorCode } from './errors.js';
export { LAYOUT } from './layout.generated.js';
export type { Drained, NativeSegment, SegmentInfo, SegmentPhase, SegmentStatus } from './native.js';
export { DEFAULT_SEGMENT_DIRECTORY, listSegments, openSegment } from './segment.js';
