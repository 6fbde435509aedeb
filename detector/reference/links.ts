/** What joins the GPUs of a host, by GPU: bytes a second one way. */
export interface Links {
  readonly nvlink: number;
  readonly pcie: number;
}

const GB = 1e9;
/** PCIe x16 by generation. */
const [GEN3, GEN4, GEN5] = [15.75 * GB, 31.5 * GB, 63 * GB];

/**
 * By the name that CUDA gives a device. Rates are half of what NVIDIA's datasheets give for both ways. Cards without NVLink
 * or with bridges between two of them only (PCIe, NVL) are not told of: there PCIe is what reductions may have.
 */
const DEVICES: readonly (readonly [RegExp, Links])[] = [
  [/\b(GB|B)[23]00\b/, { nvlink: 900 * GB, pcie: GEN5 }],
  [/\bH800\b/, { nvlink: 200 * GB, pcie: GEN5 }],
  [/\b(H100|H200|H20|GH200)\b/, { nvlink: 450 * GB, pcie: GEN5 }],
  [/\bA800-SXM/, { nvlink: 200 * GB, pcie: GEN4 }],
  [/\bA100-SXM/, { nvlink: 300 * GB, pcie: GEN4 }],
  [/\bV100-SXM/, { nvlink: 150 * GB, pcie: GEN3 }],
];
const NO_SWITCH = /\bPCIE\b|\bNVL\b/i;

/** Undefined where the device is not known, or has no NVLink to all the others of its host. */
export const linksOf = (device: string | undefined): Links | undefined =>
  device === undefined || NO_SWITCH.test(device) ? undefined : DEVICES.find(([name]) => name.test(device))?.[1];
