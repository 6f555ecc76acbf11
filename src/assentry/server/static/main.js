// Puts the small modules to work. Every page works without any of this.
import { listen } from "./live.js";
import { startClocks } from "./clock.js";
import { startFields } from "./fields.js";
import { startKeys } from "./keys.js";
import { startInbox } from "./inbox.js";
import { startSheets } from "./sheets.js";

startClocks();
startFields();
startKeys();
startInbox();
startSheets();
listen();
