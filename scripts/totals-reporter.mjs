/** A node:test reporter that counts what ran: one JSON object {passed, failed, skipped: [why each was]}. */
export default async function* totals(events) {
  let passed = 0;
  let failed = 0;
  const skipped = [];
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    // Also of a suite: then nothing tells of the tests in it.
    if (data.skip !== undefined) skipped.push(`${data.name} (${data.skip === true ? 'no reason given' : data.skip})`);
    else if (data.details?.type === 'suite') continue;
    else if (type === 'test:pass') passed++;
    else failed++;
  }
  yield JSON.stringify({ passed, failed, skipped });
}
