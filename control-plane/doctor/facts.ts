/** Facts that the `doctor` checks examine. They are collected elsewhere. Checks whose facts are unknown are skipped. */
import type { Member, Tier } from '../../schemas/admin/admin.ts';
import type { Overweight } from '../../schemas/events/overweight.ts';
import type { LogInspection, TopicReading } from '../../shared/log/core/control-log.ts';
import type { RefusedRecords } from '../../shared/log/core/record-mac.ts';
import type { UsageFault } from '../usage/check-usage.ts';

interface MachineFacts {
  /** Version of Node, such as `20.18.1`. */
  readonly node: string;
  /** Reason why the SQLite module cannot be loaded, if it cannot. */
  readonly sqliteFault?: string;
  readonly openFilesMax?: number;
  /** Free bytes on the disk that contains the data folder or, if there is none, the working folder. */
  readonly diskFreeBytes?: number;
  /** Files with secrets that users other than their owner can read. */
  readonly readableSecrets?: readonly string[];
  /** Data folder and its files, if users other than the owner can access them. */
  readonly openToOthers?: readonly string[];
  /** Folders to which a process must write, but cannot. */
  readonly unwritable?: readonly string[];
  /** Files in the data folder that are larger than they should be. */
  readonly overgrown?: readonly { readonly name: string; readonly bytes: number }[];
  /** Ports that this process needs but another process uses, or undefined if no port was tried. */
  readonly takenPorts?: readonly number[];
}

interface LogFacts {
  readonly reachable: boolean;
  /** Reason why the log cannot be written, although it can be read. */
  readonly writeFault?: string | undefined;
  /** Reason why the log is unreachable, if known. */
  readonly reason?: string | undefined;
  readonly position: number;
  /** Reason why this replica's fold has stopped, if it has. */
  readonly fault?: string | undefined;
  /** Seconds since the last proof that the whole log is folded, or null before the first proof. */
  readonly freshSeconds: number | null;
  readonly skipped: number;
  readonly isSigned: boolean;
  /** Position at which the state's rows did not match the checkpoint in the log. */
  readonly divergedAt?: number | undefined;
  readonly diskFreeBytes?: number | undefined;
  /** Reading progress of this replica on each topic, and its failures. */
  readonly topics?: readonly TopicReading[] | undefined;
  /** Whether this replica reads back its own reports. If it does not, the silence of other processes proves nothing. */
  readonly hasReports?: boolean | undefined;
  /** State of the brokers, if the log is on Kafka. */
  readonly brokers?: LogInspection | undefined;
  /** Topics in which records were refused since this process started, because they had no valid MAC. */
  readonly refused?: readonly (RefusedRecords & { readonly topic: string })[] | undefined;
  readonly history?:
    | { readonly position: number; readonly bytes: number; readonly fault?: string | undefined }
    | undefined;
}

interface ControlPlaneFacts {
  readonly name: string;
  /** Whether this is the replica that collected the facts. */
  readonly isSelf: boolean;
  readonly position: number;
  /** Whether this replica's digest differs from that of the collecting replica at the same position and fold version. */
  readonly isDiverged: boolean;
  readonly foldVersion: number;
  readonly sameLog: boolean;
  readonly maySign: boolean;
  readonly silentSeconds: number;
  /** Seconds by which this process's clock is ahead of the collecting replica's, or undefined if unknown. */
  readonly clockAheadSeconds?: number | undefined;
  readonly fault?: string | undefined;
}

interface GatewayFacts {
  readonly name: string;
  readonly state: 'SYNCED' | 'LAGGING' | 'STALE' | 'DIVERGED';
  readonly lagEvents: number;
  readonly freshSeconds: number | null;
  readonly silentSeconds: number;
  readonly clockAheadSeconds?: number | undefined;
  readonly stalePolicy?: 'fence' | 'serve' | undefined;
  readonly foldVersion: number;
  readonly sameLog: boolean;
  readonly processes: number;
  readonly fault?: string | undefined;
  /** Days until the certificate of the gateway's listeners expires, or undefined without TLS. */
  readonly daysLeft?: number | undefined;
  /** Whether the gateway records decisions but cannot be asked about them. */
  readonly isMute?: boolean | undefined;
  /** Whether the gateway has no file descriptors left for connections to nodes. */
  readonly isOutOfFiles?: boolean | undefined;
}

interface NodeFacts {
  readonly id: string;
  /** Place of the node: `pool`, `stack:ID` or `organisation:ID`. */
  readonly place: string;
  readonly up: boolean;
  readonly drained: boolean;
  readonly reason?: string | undefined;
  /** Name of the replica that watches the node. */
  readonly owner?: string | undefined;
  /** Catalog names of the models that the node has loaded. */
  readonly models: readonly string[];
  /** Models that the node's agent could not load, with the reasons. */
  readonly failedLoads: readonly { readonly model: string; readonly reason?: string | undefined }[];
  /** Gateways whose requests the node has not answered for some time. */
  readonly unansweredAt?: readonly string[] | undefined;
  /** Gateways to which the node reported more tokens in the last hour than a request can use. */
  readonly overstatedTo?: readonly string[] | undefined;
  /** Unusual, ambiguous or unknown features of the node's responses in the last hour, each with the model's name. */
  readonly oddForms?: readonly string[] | undefined;
  /** Whether some of the node's reports were kept out of the log in the last hour, because they exceeded a limit. */
  readonly withheld?: boolean | undefined;
  /** Number of times that the node's health changed in the last hour. */
  readonly changesLastHour?: number | undefined;
}

interface OrganisationFacts {
  readonly id: string;
  readonly tier: string | null;
  readonly activeKeys: number;
}

interface KeyFacts {
  readonly id: string;
  readonly organisation: string;
  /** Days until the key expires, or null if it never expires. */
  readonly expiresInDays: number | null;
  readonly createdBy: string;
}

interface ModelFacts {
  readonly catalog: readonly string[];
  /** Installed models, with their place: `pool` or `stack:ID`. */
  readonly installs: readonly { readonly place: string; readonly model: string }[];
  readonly tiers: readonly Omit<Tier, 'rank'>[];
  readonly anonymousModels?: '*' | readonly string[] | undefined;
  readonly organisations: readonly OrganisationFacts[];
  readonly members: readonly Pick<Member, 'organisation' | 'person'>[];
  /** Active keys that expire, or that a person created. */
  readonly keys: readonly KeyFacts[];
}

interface LimitFacts {
  /** Damage in `usage.db`, and days on which its totals differ from the rows that are kept for billing. */
  readonly fileFaults: readonly UsageFault[];
  /** Tiers with a model whose weight exceeds the tier's concurrency. */
  readonly overweight: readonly Overweight[];
  readonly usageFaults: Readonly<Record<string, number>>;
  /** Periods in which gateways' counters and usage rows have different token counts, although both have stopped changing. */
  readonly counterDifferences: readonly {
    readonly organisation: string;
    readonly period: string;
    readonly counters: number;
    readonly rows: number;
  }[];
}

interface ListenerFacts {
  readonly name: string;
  readonly isLoopback: boolean;
  /** Days until the certificate expires, or undefined without TLS. */
  readonly daysLeft?: number | undefined;
  /** Reason why the certificate cannot be used, if it cannot. */
  readonly certificateFault?: string | undefined;
}

/** A gateway's responses for another organisation's stack and for a stack that does not exist. They must be equal. */
interface ProbeFacts {
  readonly gateway: string;
  readonly foreign: string;
  readonly missing: string;
}

interface ChangeFacts {
  readonly open?:
    | {
        readonly id: string;
        readonly openHours: number;
        /** Reason why the change does not continue automatically, if there is one. */
        readonly stuck?: string | undefined;
        /** Gateways in the change's waves that do not follow the log, with the reasons. */
        readonly halted: readonly { readonly gateway: string; readonly reason: string }[];
      }
    | undefined;
  /** Changes that a control plane withdrew automatically in the last day. */
  readonly withdrawn: readonly { readonly id: string; readonly hoursAgo: number; readonly reason: string }[];
}

export interface DoctorFacts {
  /** Time of the facts in ms since 1970, or undefined if no check depends on it. */
  readonly now?: number | undefined;
  readonly machine?: MachineFacts | undefined;
  readonly log?: LogFacts | undefined;
  readonly controlPlanes?: readonly ControlPlaneFacts[] | undefined;
  readonly gateways?: readonly GatewayFacts[] | undefined;
  readonly probe?: ProbeFacts | undefined;
  readonly nodes?: readonly NodeFacts[] | undefined;
  readonly models?: ModelFacts | undefined;
  readonly limits?: LimitFacts | undefined;
  readonly listeners?: readonly ListenerFacts[] | undefined;
  readonly changes?: ChangeFacts | undefined;
}
