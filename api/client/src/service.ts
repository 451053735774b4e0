// Written by `make client` from the description of the service. Do not edit.

export interface paths {
    "/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** State of the service */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description State of the service */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Status"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/_spec": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This description */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description This description */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": {
                            /** @description What is described. */
                            info: Record<string, never>;
                            /** @description Version of OpenAPI. */
                            openapi: string;
                            /** @description Every operation. */
                            paths: Record<string, never>;
                        } & {
                            [key: string]: unknown;
                        };
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/accounts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A trader's broker accounts */
        get: {
            parameters: {
                query: {
                    /** @description The partner's own stable user id of the trader. */
                    traderExternalId: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A trader's broker accounts */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["AccountList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/accounts/active": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Switch a trader's active account */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["ActiveAccountChoice"];
                };
            };
            responses: {
                /** @description Switch a trader's active account */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ActiveAccount"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/marketplace/purchases/{id}/refund": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Refund a purchase */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description purchaseId of the purchase. */
                    id: string;
                };
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["Refund"];
                };
            };
            responses: {
                /** @description Refund a purchase */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Purchase"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/admin/marketplace/subscriptions/{id}/refund": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Refund the last month of a subscription */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description subscriptionId of the subscription. */
                    id: string;
                };
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["Refund"];
                };
            };
            responses: {
                /** @description Refund the last month of a subscription */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Subscription"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ai/bot-analysis": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Analyse the candles of a bot */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 198 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["BotAnalysisRequest"];
                };
            };
            responses: {
                /** @description Analyse the candles of a bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["BotAnalysis"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ai/copilot/signal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A signal for an asset */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["SignalRequest"];
                };
            };
            responses: {
                /** @description A signal for an asset */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Signal"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/analytics/activity": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Traders and orders by time */
        get: {
            parameters: {
                query?: {
                    /** @description Accounts that count: real money, demo, or both. */
                    accountMode?: "REAL" | "DEMO" | "ALL";
                    /** @description Only orders on accounts in this currency. Default: those in all of them, counted together. */
                    currency?: string;
                    /** @description Start of the window, inclusive: ISO 8601, with a zone. Default: 30 days before `to`. */
                    from?: string;
                    /** @description Length of a bucket. Weeks begin on Monday. */
                    interval?: "hour" | "day" | "week" | "month";
                    /** @description IANA name of the time zone by whose clocks days, weeks and months begin: area and place, as in the example, a name of one word such as Japan, or UTC. Not the abbreviations CET, EET, EST, HST, MET, MST and WET. */
                    timezone?: string;
                    /** @description End of the window, exclusive: ISO 8601, with a zone. Default: now. At most 731 days after `from`, 31 with interval `hour`. */
                    to?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Traders and orders by time */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Activity"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/analytics/marketplace": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Marketplace earnings by time */
        get: {
            parameters: {
                query?: {
                    /** @description Start of the window, inclusive: ISO 8601, with a zone. Default: 30 days before `to`. */
                    from?: string;
                    /** @description Length of a bucket. Weeks begin on Monday. */
                    interval?: "hour" | "day" | "week" | "month";
                    /** @description IANA name of the time zone by whose clocks days, weeks and months begin: area and place, as in the example, a name of one word such as Japan, or UTC. Not the abbreviations CET, EET, EST, HST, MET, MST and WET. */
                    timezone?: string;
                    /** @description End of the window, exclusive: ISO 8601, with a zone. Default: now. At most 731 days after `from`, 31 with interval `hour`. */
                    to?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Marketplace earnings by time */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Marketplace"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/analytics/reconciliation": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Markup compared with the broker's report */
        get: {
            parameters: {
                query?: {
                    /** @description Only this account currency. Default: all, a row for each. */
                    currency?: string;
                    /** @description Start of the window, inclusive: ISO 8601, with a zone. Default: 30 days before `to`. */
                    from?: string;
                    /** @description End of the window, exclusive: ISO 8601, with a zone. Default: now. At most 731 days after `from`, 31 with interval `hour`. */
                    to?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Markup compared with the broker's report */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Reconciliation"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/analytics/reconciliation/token": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Store a token for the broker's report */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 97 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NewReportToken"];
                };
            };
            responses: {
                /** @description Store a token for the broker's report */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["StoredReportToken"];
                    };
                };
            };
        };
        /** Remove the token for the broker's report */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Remove the token for the broker's report */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["RemovedReportToken"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/analytics/revenue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Revenue by time */
        get: {
            parameters: {
                query?: {
                    /** @description Accounts that count: real money, demo, or both. */
                    accountMode?: "REAL" | "DEMO" | "ALL";
                    /** @description Only this account currency. Default: all, a row for each; money is never added across currencies. */
                    currency?: string;
                    /** @description Start of the window, inclusive: ISO 8601, with a zone. Default: 30 days before `to`. */
                    from?: string;
                    /** @description A row for each of these that occurs; `contractType` of multipliers is MULTUP or MULTDOWN. */
                    groupBy?: "asset" | "contractType" | "kind" | "accountMode";
                    /** @description Length of a bucket. Weeks begin on Monday. */
                    interval?: "hour" | "day" | "week" | "month";
                    /** @description IANA name of the time zone by whose clocks days, weeks and months begin: area and place, as in the example, a name of one word such as Japan, or UTC. Not the abbreviations CET, EET, EST, HST, MET, MST and WET. */
                    timezone?: string;
                    /** @description End of the window, exclusive: ISO 8601, with a zone. Default: now. At most 731 days after `from`, 31 with interval `hour`. */
                    to?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Revenue by time */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Revenue"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/analytics/traders": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Traders by their results */
        get: {
            parameters: {
                query?: {
                    /** @description Accounts that count: real money, demo, or both. */
                    accountMode?: "REAL" | "DEMO" | "ALL";
                    /** @description Only this account currency: traders are ordered by amounts, which must be of one. */
                    currency?: string;
                    /** @description nextCursor of the page before, of the same list under the same filters; opaque. */
                    cursor?: string;
                    /** @description Start of the window, inclusive: ISO 8601, with a zone. Default: 30 days before `to`. */
                    from?: string;
                    /** @description Length of a bucket. Weeks begin on Monday. */
                    interval?: "hour" | "day" | "week" | "month";
                    /** @description How many entries at most. */
                    limit?: number;
                    /** @description What traders are ordered by, the largest first. `volume` is the sum of stakes. */
                    sort?: "pnl" | "volume" | "markup" | "trades" | "lastTradeAt";
                    /** @description IANA name of the time zone by whose clocks days, weeks and months begin: area and place, as in the example, a name of one word such as Japan, or UTC. Not the abbreviations CET, EET, EST, HST, MET, MST and WET. */
                    timezone?: string;
                    /** @description End of the window, exclusive: ISO 8601, with a zone. Default: now. At most 731 days after `from`, 31 with interval `hour`. */
                    to?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Traders by their results */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Traders"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/analytics/traders/{traderExternalId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One trader by time */
        get: {
            parameters: {
                query?: {
                    /** @description Accounts that count: real money, demo, or both. */
                    accountMode?: "REAL" | "DEMO" | "ALL";
                    /** @description Only this account currency. Default: all, a row for each; money is never added across currencies. */
                    currency?: string;
                    /** @description Start of the window, inclusive: ISO 8601, with a zone. Default: 30 days before `to`. */
                    from?: string;
                    /** @description Length of a bucket. Weeks begin on Monday. */
                    interval?: "hour" | "day" | "week" | "month";
                    /** @description IANA name of the time zone by whose clocks days, weeks and months begin: area and place, as in the example, a name of one word such as Japan, or UTC. Not the abbreviations CET, EET, EST, HST, MET, MST and WET. */
                    timezone?: string;
                    /** @description End of the window, exclusive: ISO 8601, with a zone. Default: now. At most 731 days after `from`, 31 with interval `hour`. */
                    to?: string;
                };
                header?: never;
                path: {
                    /** @description The partner's own stable user id of the trader. */
                    traderExternalId: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description One trader by time */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["TraderAnalytics"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/auth/broker/exchange": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Upload a trader's broker tokens */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 1024 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["Exchange"];
                };
            };
            responses: {
                /** @description Upload a trader's broker tokens */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Connection"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/balance": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The active account's balance */
        get: {
            parameters: {
                query: {
                    /** @description The partner's own stable user id of the trader. */
                    traderExternalId: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The active account's balance */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Balance"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/community/bots": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shared bots */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Shared bots */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["CommunityBotList"];
                    };
                };
            };
        };
        put?: never;
        /** Share a bot */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 1024 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NewCommunityBot"];
                };
            };
            responses: {
                /** @description Share a bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["CommunityBot"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/community/bots/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Delete a shared bot */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description botId of the shared bot. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Delete a shared bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["DeletedCommunityBot"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/community/bots/{id}/like": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Like a bot, or take the like back */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description botId of the shared bot. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Like a bot, or take the like back */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Like"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/community/leaderboard": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The best traders of 30 days */
        get: {
            parameters: {
                query?: {
                    /** @description Real money or a demo account. */
                    accountMode?: "REAL" | "DEMO";
                    /** @description Account currency. */
                    currency?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The best traders of 30 days */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Leaderboard"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/community/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The newest 100 messages */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The newest 100 messages */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MessageList"];
                    };
                };
            };
        };
        put?: never;
        /** Write a message */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NewMessage"];
                };
            };
            responses: {
                /** @description Write a message */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Message"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/community/messages/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Delete a message */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description messageId of the message. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Delete a message */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["DeletedMessage"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/community/profile": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The profile of the acting party */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The profile of the acting party */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Profile"];
                    };
                };
            };
        };
        put?: never;
        /** Change the profile of the acting party */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody?: {
                content: {
                    "application/json": components["schemas"]["ProfileUpdate"];
                };
            };
            responses: {
                /** @description Change the profile of the acting party */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Profile"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/copy/follow": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Follow a leader */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["FollowRequest"];
                };
            };
            responses: {
                /** @description Follow a leader */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Follow"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/copy/leaders": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Traders one can follow */
        get: {
            parameters: {
                query?: {
                    /** @description Real money or a demo account. */
                    accountMode?: "REAL" | "DEMO";
                    /** @description Account currency. */
                    currency?: string;
                    /** @description tenant: the caller's own traders; global: those of every partner whose community profile is public. */
                    scope?: "tenant" | "global";
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Traders one can follow */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["LeaderList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/copy/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A trader's follows with their states */
        get: {
            parameters: {
                query: {
                    /** @description The partner's own stable user id of the trader. */
                    traderExternalId: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description A trader's follows with their states */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["FollowList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/copy/unfollow": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stop following a leader */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["UnfollowRequest"];
                };
            };
            responses: {
                /** @description Stop following a leader */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Follow"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What happened */
        get: {
            parameters: {
                query?: {
                    /** @description Events after this cursor; without it from the oldest that is kept; `now`: none, and the newest cursor, at once. */
                    after?: string;
                    /** @description How many events at most. */
                    limit?: number;
                    /** @description The partner's own stable user id of the trader. */
                    traderExternalId?: string;
                    /** @description Only these types, separated by commas. */
                    types?: string;
                    /** @description For how many seconds an empty response waits for an event. */
                    wait?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description What happened */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["EventPage"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One event */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description id of the event. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description One event */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Event"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List API keys */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description List API keys */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["KeyList"];
                    };
                };
            };
        };
        put?: never;
        /** Create an API key */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody?: {
                content: {
                    "application/json": components["schemas"]["NewKey"];
                };
            };
            responses: {
                /** @description Create an API key */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["IssuedKey"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revoke an API key */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description keyId of the key. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Revoke an API key */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["RevokedKey"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/bots": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Published bots */
        get: {
            parameters: {
                query?: {
                    /** @description Only this category: trend, scalp, grid, ai, arbitrage, custom. */
                    category?: string;
                    /** @description Entries a page. */
                    limit?: number;
                    /** @description Page, from 1. */
                    page?: number;
                    /** @description Only this risk level: low, medium, high. */
                    riskLevel?: string;
                    /** @description Words; each must begin a word of the name, description, category, strategyType or supportedAssets. Case and accents do not matter, nor do words after the tenth. */
                    search?: string;
                    /** @description Order: newest publication, best average rating (then most reviews), or most downloads. */
                    sort?: "newest" | "top-rated" | "top-downloads";
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Published bots */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["BotPage"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/bots/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One bot */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description botId of the bot. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description One bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["BotDetail"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/bots/{id}/purchase": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Buy a bot */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description botId of the bot. */
                    id: string;
                };
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody?: {
                content: {
                    "application/json": components["schemas"]["Sale"];
                };
            };
            responses: {
                /** @description Buy a bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Purchase"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/bots/{id}/reviews": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Reviews of a bot */
        get: {
            parameters: {
                query?: {
                    /** @description Entries a page. */
                    limit?: number;
                    /** @description Page, from 1. */
                    page?: number;
                };
                header?: never;
                path: {
                    /** @description botId of the bot. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Reviews of a bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["ReviewPage"];
                    };
                };
            };
        };
        put?: never;
        /** Review a bot */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description botId of the bot. */
                    id: string;
                };
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NewReview"];
                };
            };
            responses: {
                /** @description Review a bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Review"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/bots/{id}/subscribe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Subscribe to a bot */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description botId of the bot. */
                    id: string;
                };
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody?: {
                content: {
                    "application/json": components["schemas"]["Sale"];
                };
            };
            responses: {
                /** @description Subscribe to a bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Subscription"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/creator/bots": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The creator's own bots */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The creator's own bots */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["CreatorBots"];
                    };
                };
            };
        };
        put?: never;
        /** Write a bot */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 1024 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NewBot"];
                };
            };
            responses: {
                /** @description Write a bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["CreatorBot"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/creator/bots/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Change a bot */
        patch: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description botId of the bot. */
                    id: string;
                };
                cookie?: never;
            };
            /** @description JSON, at most 1024 KiB. */
            requestBody?: {
                content: {
                    "application/json": components["schemas"]["BotChanges"];
                };
            };
            responses: {
                /** @description Change a bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["CreatorBot"];
                    };
                };
            };
        };
        trace?: never;
    };
    "/v1/marketplace/creator/bots/{id}/publish": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Publish a bot */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description botId of the bot. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Publish a bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["CreatorBot"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/creator/bots/{id}/retire": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Retire a bot */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description botId of the bot. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Retire a bot */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["CreatorBot"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/creator/earnings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the bots earned */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description What the bots earned */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Earnings"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/creator/payouts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Payouts requested */
        get: {
            parameters: {
                query?: {
                    /** @description Entries a page. */
                    limit?: number;
                    /** @description Page, from 1. */
                    page?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Payouts requested */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["PayoutPage"];
                    };
                };
            };
        };
        put?: never;
        /** Request a payout */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NewPayout"];
                };
            };
            responses: {
                /** @description Request a payout */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Payout"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/my/purchases": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Purchases of the acting party */
        get: {
            parameters: {
                query?: {
                    /** @description nextCursor of the page before, of the same list under the same filters; opaque. */
                    cursor?: string;
                    /** @description How many entries at most. */
                    limit?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Purchases of the acting party */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["PurchaseList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/my/subscriptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Subscriptions of the acting party */
        get: {
            parameters: {
                query?: {
                    /** @description nextCursor of the page before, of the same list under the same filters; opaque. */
                    cursor?: string;
                    /** @description How many entries at most. */
                    limit?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Subscriptions of the acting party */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["SubscriptionList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/marketplace/subscriptions/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Cancel a subscription */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description subscriptionId of the subscription. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Cancel a subscription */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Subscription"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The partner behind the key */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The partner behind the key */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Partner"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/multipliers/spec/{asset}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the broker offers for an asset */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description Broker symbol: a synthetic index or a forex pair. */
                    asset: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description What the broker offers for an asset */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MultiplierSpec"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/orders": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Order history */
        get: {
            parameters: {
                query?: {
                    /** @description The order of this contract, by the broker's id. */
                    brokerOrderId?: string;
                    /** @description The order of this idempotency key. */
                    clientOrderId?: string;
                    /** @description nextCursor of the page before, of the same list under the same filters; opaque. */
                    cursor?: string;
                    /** @description How many entries at most. */
                    limit?: number;
                    /** @description PENDING: accepted, the broker's response not yet known. OPEN: bought. CLOSED: settled, sold or stopped out. FAILED: certainly no contract. */
                    status?: "PENDING" | "OPEN" | "CLOSED" | "FAILED";
                    /** @description The partner's own stable user id of the trader. */
                    traderExternalId?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Order history */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["OrderPage"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/orders/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One order */
        get: {
            parameters: {
                query?: {
                    /** @description Seconds to wait for the order to be CLOSED or FAILED; 0: return at once. */
                    wait?: number;
                };
                header?: never;
                path: {
                    /** @description orderId of the order. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description One order */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["OrderEntry"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/orders/{id}/close": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Force-close an open contract */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description orderId of the order. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Force-close an open contract */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Order"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/orders/binary": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Place a binary or digit contract */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["BinaryOrder"];
                };
            };
            responses: {
                /** @description Place a binary or digit contract */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Order"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/orders/multiplier": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Place a multiplier contract */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["MultiplierOrderRequest"];
                };
            };
            responses: {
                /** @description Place a multiplier contract */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MultiplierOrder"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/orders/multiplier/{orderId}/close": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Close a multiplier order */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description orderId of the multiplier order. */
                    orderId: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Close a multiplier order */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["MultiplierOrder"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/positions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Open positions */
        get: {
            parameters: {
                query?: {
                    /** @description The partner's own stable user id of the trader. */
                    traderExternalId?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Open positions */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["PositionList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/requests": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List requests */
        get: {
            parameters: {
                query?: {
                    /** @description nextCursor of the page before, of the same list under the same filters; opaque. */
                    cursor?: string;
                    /** @description Only this error. */
                    error?: "VALIDATION_FAILED" | "MALFORMED_REQUEST" | "MALFORMED_JSON" | "UNAUTHENTICATED" | "INVALID_CREDENTIALS" | "SUBSCRIPTION_INACTIVE" | "WALLET_INSUFFICIENT" | "KEY_REVOKED" | "PARTNER_SUSPENDED" | "HTTPS_REQUIRED" | "CROSS_SITE_REFUSED" | "INSUFFICIENT_SCOPE" | "NOT_FOUND" | "TRADER_NOT_FOUND" | "ACCOUNT_NOT_FOUND" | "LEADER_NOT_FOUND" | "BROKER_DISCONNECTED" | "METHOD_NOT_ALLOWED" | "REQUEST_TIMEOUT" | "CLIENT_ORDER_ID_REUSED" | "FOLLOW_MISMATCH" | "CONFLICT" | "PRICE_CHANGED" | "LIMIT_REACHED" | "IDEMPOTENCY_IN_PROGRESS" | "EMAIL_TAKEN" | "TENANT_SLUG_TAKEN" | "CURSOR_EXPIRED" | "PAYLOAD_TOO_LARGE" | "UNSUPPORTED_MEDIA_TYPE" | "IDEMPOTENCY_KEY_REUSED" | "MARKET_CLOSED" | "INVALID_CONTRACT" | "INSUFFICIENT_BALANCE" | "RATE_LIMITED" | "HEADERS_TOO_LARGE" | "INTERNAL" | "BROKER_UPSTREAM" | "TRADING_HALTED" | "UNAVAILABLE";
                    /** @description Only requests that arrived at this instant or later. */
                    from?: string;
                    /** @description How many entries at most. */
                    limit?: number;
                    /** @description Only this operation, by its operationId. */
                    operation?: "getMe" | "exchangeTokens" | "listAccounts" | "activateAccount" | "getBalance" | "placeBinaryOrder" | "closeOrder" | "listOrders" | "getOrder" | "placeMultiplierOrder" | "closeMultiplierOrder" | "listOpenPositions" | "getMultiplierSpec" | "listLeaders" | "followLeader" | "unfollowLeader" | "listMyFollows" | "copilotSignal" | "analyseBotCandles" | "listTemplates" | "deployTemplate" | "listMyDeployments" | "createKey" | "listKeys" | "revokeKey" | "signUpTrader" | "logInTrader" | "getTraderMe" | "logOutTrader" | "changePassword" | "resetPassword" | "confirmPassword" | "endSessions" | "disableTrader" | "enableTrader" | "collectTrade" | "listTradeHistory" | "listEvents" | "getEvent" | "createStreamTicket" | "createWebhook" | "listWebhooks" | "getWebhook" | "updateWebhook" | "deleteWebhook" | "rotateWebhookSecret" | "testWebhook" | "listWebhookDeliveries" | "retryWebhookDelivery" | "replayWebhook" | "getRevenue" | "listTraderAnalytics" | "getTraderAnalytics" | "getActivity" | "getMarketplaceAnalytics" | "getReconciliation" | "storeReconciliationToken" | "removeReconciliationToken" | "getUsage" | "listRequests" | "getSpec" | "getCommunityProfile" | "updateCommunityProfile" | "getLeaderboard" | "listMessages" | "postMessage" | "deleteMessage" | "listCommunityBots" | "createCommunityBot" | "deleteCommunityBot" | "likeCommunityBot" | "listMarketplaceBots" | "getMarketplaceBot" | "listBotReviews" | "reviewBot" | "purchaseBot" | "subscribeToBot" | "cancelSubscription" | "listMyPurchases" | "listMySubscriptions" | "listCreatorBots" | "createCreatorBot" | "updateCreatorBot" | "publishBot" | "retireBot" | "getCreatorEarnings" | "requestPayout" | "listPayouts" | "refundPurchase" | "refundSubscription" | "openStream";
                    /** @description Only requests under this X-Request-Id. */
                    requestId?: string;
                    /** @description Only responses of this HTTP status. */
                    status?: number;
                    /** @description Only requests that arrived before this instant. */
                    to?: string;
                    /** @description Only requests about this trader. */
                    traderExternalId?: string;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description List requests */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["RequestPage"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stream/tickets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Let a browser open the stream */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 75 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NewTicket"];
                };
            };
            responses: {
                /** @description Let a browser open the stream */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["StreamTicket"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/templates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The catalogue of sites */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The catalogue of sites */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["TemplateList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/templates/{slug}/deploy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Deploy a template as a site */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description Name of the template in addresses. */
                    slug: string;
                };
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NewDeployment"];
                };
            };
            responses: {
                /** @description Deploy a template as a site */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Deployment"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/templates/mine": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The partner's sites */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The partner's sites */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["DeploymentList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/traders/{traderId}/disable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Keep a trader from logging in */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description traderId of the trader. */
                    traderId: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Keep a trader from logging in */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["DisabledTrader"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/traders/{traderId}/enable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Let a trader log in again */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description traderId of the trader. */
                    traderId: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Let a trader log in again */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["DisabledTrader"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/traders/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Log a trader in */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["Login"];
                };
            };
            responses: {
                /** @description Log a trader in */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["TraderLogin"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/traders/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Log a trader out */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Log a trader out */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["LoggedOut"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/traders/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The trader behind the session */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description The trader behind the session */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["TraderAccount"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/traders/password": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Change a trader's password */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["PasswordChange"];
                };
            };
            responses: {
                /** @description Change a trader's password */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["EndedSessions"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/traders/password/confirm": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Choose a new password with a reset token */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NewPassword"];
                };
            };
            responses: {
                /** @description Choose a new password with a reset token */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["EndedSessions"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/traders/password/reset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Begin a reset of a password */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["ResetRequest"];
                };
            };
            responses: {
                /** @description Begin a reset of a password */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["PasswordReset"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/traders/sessions/end": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End all sessions of a trader */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody?: {
                content: {
                    "application/json": components["schemas"]["SessionsEnd"];
                };
            };
            responses: {
                /** @description End all sessions of a trader */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["EndedSessions"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/traders/signup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sign a trader up */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["Signup"];
                };
            };
            responses: {
                /** @description Sign a trader up */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["TraderLogin"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/trades/collect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Record a trade */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 1024 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["TradeRecord"];
                };
            };
            responses: {
                /** @description Record a trade */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["CollectedTrade"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/trades/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Recorded trades */
        get: {
            parameters: {
                query?: {
                    /** @description How many entries at most. */
                    limit?: number;
                };
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Recorded trades */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["TradeList"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Usage of the billing period */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Usage of the billing period */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Usage"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List webhook endpoints */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description List webhook endpoints */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["WebhookList"];
                    };
                };
            };
        };
        put?: never;
        /** Register a webhook endpoint */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path?: never;
                cookie?: never;
            };
            /** @description JSON, at most 65 KiB. */
            requestBody: {
                content: {
                    "application/json": components["schemas"]["NewWebhook"];
                };
            };
            responses: {
                /** @description Register a webhook endpoint */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["IssuedWebhook"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One webhook endpoint */
        get: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description webhookId of the endpoint. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description One webhook endpoint */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Webhook"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        /** Delete a webhook endpoint */
        delete: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description webhookId of the endpoint. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Delete a webhook endpoint */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["DeletedWebhook"];
                    };
                };
            };
        };
        options?: never;
        head?: never;
        /** Change, disable or enable a webhook endpoint */
        patch: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description webhookId of the endpoint. */
                    id: string;
                };
                cookie?: never;
            };
            /** @description JSON, at most 65 KiB. */
            requestBody?: {
                content: {
                    "application/json": components["schemas"]["WebhookChange"];
                };
            };
            responses: {
                /** @description Change, disable or enable a webhook endpoint */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Webhook"];
                    };
                };
            };
        };
        trace?: never;
    };
    "/v1/webhooks/{id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What was sent to a webhook endpoint */
        get: {
            parameters: {
                query?: {
                    /** @description nextCursor of the page before, of the same list under the same filters; opaque. */
                    cursor?: string;
                    /** @description How many entries at most. */
                    limit?: number;
                    /** @description Only attempts of this status. */
                    status?: "PENDING" | "DELIVERED" | "RETRYING" | "FAILED";
                };
                header?: never;
                path: {
                    /** @description webhookId of the endpoint. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description What was sent to a webhook endpoint */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["DeliveryPage"];
                    };
                };
            };
        };
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{id}/deliveries/{deliveryId}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send an event again */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description deliveryId of the attempt. */
                    deliveryId: string;
                    /** @description webhookId of the endpoint. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Send an event again */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Delivery"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{id}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send past events again */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description webhookId of the endpoint. */
                    id: string;
                };
                cookie?: never;
            };
            /** @description JSON, at most 64 KiB. */
            requestBody?: {
                content: {
                    "application/json": components["schemas"]["NewReplay"];
                };
            };
            responses: {
                /** @description Send past events again */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["Replay"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{id}/rotate-secret": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Give a webhook endpoint a new secret */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description webhookId of the endpoint. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Give a webhook endpoint a new secret */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["RotatedSecret"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send a test event */
        post: {
            parameters: {
                query?: never;
                header?: never;
                path: {
                    /** @description webhookId of the endpoint. */
                    id: string;
                };
                cookie?: never;
            };
            requestBody?: never;
            responses: {
                /** @description Send a test event */
                200: {
                    headers: {
                        [name: string]: unknown;
                    };
                    content: {
                        "application/json": components["schemas"]["WebhookTest"];
                    };
                };
            };
        };
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** Account */
        Account: {
            /** @description The broker's account id. */
            accountId: string;
            /**
             * @description Real money or a demo account.
             * @enum {string}
             */
            accountMode: "REAL" | "DEMO";
            /** @description Whether orders go to this account. */
            active: boolean;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            connectedAt: string;
            /** @description null until the account was given a currency or first used. */
            currency: string | null;
            /**
             * @description Only when REJECTED: the token was refused (TOKEN_REFUSED) or has expired, the account is not of the mode or currency it was exchanged with, or the token does not have this account. Exchange it again to correct that.
             * @enum {string}
             */
            reason?: "TOKEN_REFUSED" | "MODE_MISMATCH" | "CURRENCY_MISMATCH" | "TOKEN_EXPIRED" | "ACCOUNT_NOT_FOUND";
            /**
             * @description REJECTED once the broker refused the token or the account; `reason` has the cause.
             * @enum {string}
             */
            status: "CONNECTED" | "REJECTED";
        };
        /** AccountList */
        AccountList: {
            /** @description The oldest first. */
            data: components["schemas"]["Account"][];
        };
        /** ActiveAccount */
        ActiveAccount: {
            /** @description The broker's account id. */
            activeAccountId: string;
            /**
             * @description Real money or a demo account.
             * @enum {string}
             */
            activeAccountMode: "REAL" | "DEMO";
            /** @description Identifier of the trader. */
            traderId: string;
        };
        /** ActiveAccountChoice */
        ActiveAccountChoice: {
            /** @description The broker's account id. */
            accountId: string;
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
        };
        /** Activity */
        Activity: {
            /**
             * Format: date-time
             * @description The instant that the response is of: what was committed by then is counted.
             */
            asOf: string;
            /** @description false while something of the window is still unknown: it is not over, a contract is open, a markup is unknown, or an order is in doubt; of activity also while an order that failed in the last hour may be repeated. A window without `to` is over. */
            complete: boolean;
            /** @description The rows, oldest bucket first. */
            data: {
                /** @description Different traders who placed an order. */
                activeTraders: number;
                /** @description Milliseconds from sending an order to the broker until its purchase was known, as they were measured; null where none was bought. */
                answerMs: {
                    /** @description Of half of the orders at most. */
                    p50: number | null;
                    /** @description Of 99 % of the orders at most. */
                    p99: number | null;
                };
                /** @description Those that FAILED. */
                failed: number;
                /** @description FAILED orders by their code. */
                failedBy: {
                    [key: string]: number;
                };
                /** @description Orders sent whose outcome is not known yet, or in review. */
                inDoubt: number;
                /** @description Those for whom it was the first ever, of accounts of this `accountMode` and `currency`. */
                newTraders: number;
                /** @description Orders accepted, copies among them. */
                placed: number;
                /** @description The others of them. */
                returningTraders: number;
                /**
                 * Format: date-time
                 * @description Start of the bucket, or `from` where that is later.
                 */
                start: string;
            }[];
            /**
             * Format: date-time
             * @description Start of the window, inclusive.
             */
            from: string;
            /**
             * @description Length of a bucket. Weeks begin on Monday. Default: "day".
             * @enum {string}
             */
            interval: "hour" | "day" | "week" | "month";
            /** @description By whose clocks buckets begin. */
            timezone: string;
            /**
             * Format: date-time
             * @description End of the window, exclusive.
             */
            to: string;
        };
        /**
         * Author
         * @description Who wrote it.
         */
        Author: {
            /**
             * Format: uri
             * @description Address of a picture (http or https), or null.
             */
            avatarUrl: string | null;
            /** @description Name shown to others; a default one until it is set: the partner's name, or Trader and four characters. */
            displayName: string;
        };
        /**
         * Backtest
         * @description What the rules of the signal achieved on the last candles, computed. It promises nothing.
         */
        Backtest: {
            /** @description Candles the rules were tried on. */
            candles: number;
            /** @description How often they gave a direction. */
            signals: number;
            /** @description wins of signals in percent; null without signals. */
            winRatePct: number | null;
            /** @description How often that was right by the end of a contract as suggested. */
            wins: number;
        };
        /** Balance */
        Balance: {
            /** @description The broker's account id. */
            accountId: string;
            /**
             * @description Real money or a demo account.
             * @enum {string}
             */
            accountMode: "REAL" | "DEMO";
            /** @description Balance at the broker, read live. */
            balance: number;
            /** @description Account currency. */
            currency: string;
        };
        /** BinaryOrder */
        BinaryOrder: {
            /** @description Broker symbol: a synthetic index or a forex pair. */
            asset: string;
            /** @description The digit; required for DIGITMATCH, DIGITDIFF, DIGITOVER and DIGITUNDER, refused for the others. */
            barrier?: string;
            /** @description The idempotency key, unique per partner for ever; a UUID v4 is expected. */
            clientOrderId: string;
            /**
             * @description Kind of binary contract.
             * @enum {string}
             */
            contractType: "CALL" | "PUT" | "DIGITMATCH" | "DIGITDIFF" | "DIGITOVER" | "DIGITUNDER" | "DIGITEVEN" | "DIGITODD";
            /** @description Length in durationUnit. */
            duration: number;
            /**
             * @description Ticks, seconds, minutes, hours or days.
             * @enum {string}
             */
            durationUnit: "t" | "s" | "m" | "h" | "d";
            /**
             * @description Place the order only on an account of this mode: 409 CONFLICT, and nothing is bought, while the trader's active account is of the other one.
             * @enum {string}
             */
            expectedAccountMode?: "REAL" | "DEMO";
            /** @description Stake in USD, at least 0.35. On an account in another currency it is converted at the broker's own rate right before the purchase and rounded down to the currency's decimals. */
            stake: number;
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
            /** @description Wait for the settlement of a contract that is not a tick contract as well. The request waits for 120 seconds (SETTLE_WAIT_MS of the installation): a contract of up to about 110 seconds returns its result, a longer one OPEN. */
            waitForSettle?: boolean;
        };
        /** Bot */
        Bot: {
            /** @description Identifier of the bot. */
            botId: string;
            /**
             * @description Kind of strategy.
             * @enum {string}
             */
            category: "trend" | "scalp" | "grid" | "ai" | "arbitrage" | "custom";
            /** @description Who made it. */
            creator: {
                /** @description Name shown to others. */
                displayName: string;
            };
            /** @description What it does, in a sentence or two. */
            description: string;
            /** @description Purchases and subscriptions, less those paid back. */
            downloads: number;
            /** @description Price of a month in USD; 0 is free, null is not offered. */
            monthlyPriceUsd: number | null;
            /** @description Name of the bot. */
            name: string;
            /** @description Price of a purchase in USD; 0 is free, null is not offered. */
            oneTimePriceUsd: number | null;
            /**
             * Format: date-time
             * @description First publication; null for a draft.
             */
            publishedAt: string | null;
            /** @description Average of the reviews with two decimals; null while there are none. */
            rating: number | null;
            /** @description How many reviews. */
            reviews: number;
            /**
             * @description How much may be lost, in the creator’s judgement.
             * @enum {string}
             */
            riskLevel: "low" | "medium" | "high";
            /** @description Addresses of pictures. */
            screenshots: string[];
            /** @description The strategy in the creator's words. */
            strategyType: string;
            /** @description Broker symbols the bot is made for. */
            supportedAssets: string[];
            /** @description Version of the code. */
            version: string;
        };
        /** BotAnalysis */
        BotAnalysis: {
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            generatedAt: string;
            indicators: components["schemas"]["Indicators"];
            /** @description Who worded the reasons: 'built-in', or the language model's name. The numbers are always built-in. */
            model: string;
            /** @description Nearest turning point above the price; null when there is none. */
            resistance: number | null;
            /** @description What to be careful about. */
            risks: string[];
            /** @description How the common strategies read these candles, the surest first. */
            strategies: components["schemas"]["Strategy"][];
            /** @description Nearest turning point below the price; null when there is none. */
            support: number | null;
            /** @description What the candles are of, in the words of the bot. */
            symbol: string;
            /**
             * @description Where the averages point.
             * @enum {string}
             */
            trend: "UP" | "DOWN" | "SIDEWAYS";
            /** @description Standard deviation of the change from candle to candle, in percent; null with too few candles. */
            volatilityPct: number | null;
        };
        /** BotAnalysisRequest */
        BotAnalysisRequest: {
            /** @description The price now. */
            currentPrice: number;
            /** @description Candles of one length. They are put in the order of their epochs; of two with the same epoch the later entry counts. */
            recentCandles: components["schemas"]["Candle"][];
            /** @description What the bot is about, in words. It may bring a strategy to the front of the list (trend, reversion, breakout); it changes no number. */
            strategyHint?: string;
            /** @description What the candles are of, in the words of the bot. */
            symbol: string;
        };
        /** BotChanges */
        BotChanges: {
            /**
             * @description Kind of strategy.
             * @enum {string}
             */
            category?: "trend" | "scalp" | "grid" | "ai" | "arbitrage" | "custom";
            /** @description The bot itself. */
            code?: string;
            /**
             * Format: uri
             * @description Address of a video. null takes it away.
             */
            demoVideoUrl?: string | null;
            /** @description What it does, in a sentence or two. */
            description?: string;
            /** @description Everything a buyer should know. null takes it away. */
            longDescription?: string | null;
            /** @description Price of a month in USD, with at most two decimals; 0 is free, left out it is not offered. null takes it away. */
            monthlyPriceUsd?: number | null;
            /** @description Name of the bot. */
            name?: string;
            /** @description Price of a purchase in USD, with at most two decimals; 0 is free, left out it is not offered. null takes it away. */
            oneTimePriceUsd?: number | null;
            /**
             * @description How much may be lost, in the creator’s judgement.
             * @enum {string}
             */
            riskLevel?: "low" | "medium" | "high";
            /** @description Addresses of pictures. */
            screenshots?: string[];
            /** @description The strategy in the creator's words. */
            strategyType?: string;
            /** @description Broker symbols the bot is made for. */
            supportedAssets?: string[];
        };
        /** BotDetail */
        BotDetail: {
            /** @description Identifier of the bot. */
            botId: string;
            /**
             * @description Kind of strategy.
             * @enum {string}
             */
            category: "trend" | "scalp" | "grid" | "ai" | "arbitrage" | "custom";
            /** @description The bot itself; only for its creator, buyers and subscribers. */
            code?: string;
            /** @description Who made it. */
            creator: {
                /** @description Name shown to others. */
                displayName: string;
            };
            /**
             * Format: uri
             * @description Address of a video.
             */
            demoVideoUrl: string | null;
            /** @description What it does, in a sentence or two. */
            description: string;
            /** @description Purchases and subscriptions, less those paid back. */
            downloads: number;
            /** @description Everything a buyer should know. */
            longDescription: string | null;
            /** @description Price of a month in USD; 0 is free, null is not offered. */
            monthlyPriceUsd: number | null;
            /** @description Name of the bot. */
            name: string;
            /** @description Price of a purchase in USD; 0 is free, null is not offered. */
            oneTimePriceUsd: number | null;
            /** @description Whether the caller bought it or subscribes to it. */
            owned: boolean;
            /**
             * Format: date-time
             * @description First publication; null for a draft.
             */
            publishedAt: string | null;
            /** @description Average of the reviews with two decimals; null while there are none. */
            rating: number | null;
            /** @description How many reviews. */
            reviews: number;
            /**
             * @description How much may be lost, in the creator’s judgement.
             * @enum {string}
             */
            riskLevel: "low" | "medium" | "high";
            /** @description Addresses of pictures. */
            screenshots: string[];
            /** @description The strategy in the creator's words. */
            strategyType: string;
            /** @description Broker symbols the bot is made for. */
            supportedAssets: string[];
            /** @description Version of the code. */
            version: string;
        };
        /** BotEarnings */
        BotEarnings: {
            /** @description Identifier of the bot. */
            botId: string;
            /** @description What buyers paid, less refunds, USD. */
            grossUsd: number;
            /** @description Name of the bot. */
            name: string;
            /** @description The same after fees, USD. */
            netUsd: number;
            /** @description Purchases less refunds. */
            sales: number;
            /** @description Subscriptions not canceled. */
            subscribers: number;
        };
        /** BotPage */
        BotPage: {
            /** @description The entries of this page. */
            data: components["schemas"]["Bot"][];
            /** @description Entries a page. */
            limit: number;
            /** @description This page. */
            page: number;
            /** @description Entries on all pages. */
            total: number;
        };
        /**
         * BotSale
         * @description To the creator of the bot.
         */
        BotSale: {
            /** @description Identifier of the bot. */
            botId: string;
            /** @description What of the price is the creator's, in USD. */
            netUsd: number;
            /** @description Price in USD. */
            priceUsd: number;
            /** @description Identifier of the purchase. */
            purchaseId: string;
            /**
             * @description COMPLETED: paid and owned. REFUNDED: paid back, no longer owned.
             * @enum {string}
             */
            status: "COMPLETED" | "REFUNDED";
        };
        /** Candle */
        Candle: {
            /** @description Last price. */
            close: number;
            /** @description Start of the candle, in seconds (or milliseconds, for all of them). */
            epoch: number;
            /** @description Highest price; below low it is refused. */
            high: number;
            /** @description Lowest price. */
            low: number;
            /** @description First price. */
            open: number;
        };
        /**
         * ClosedMultiplierOrder
         * @description A multiplier order with its result.
         */
        ClosedMultiplierOrder: {
            /** @description Broker symbol: a synthetic index or a forex pair. */
            asset: string;
            /** @description The broker's contract id. */
            brokerOrderId: string;
            /** @description What the contract cost in the account currency. */
            buyPrice: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            closedAt: string;
            /** @description Commission of the broker; null while it is not known. */
            commission: number | null;
            /**
             * @description Direction in which the market is expected to move.
             * @enum {string}
             */
            direction: "up" | "down";
            /** @description Price at the start. */
            entryPrice: number | null;
            /** @description Units of the account's currency that one USD was worth at the broker right before the purchase; only with stakeInAccount. */
            exchangeRate?: number;
            /** @description Price at the end. */
            exitPrice: number | null;
            /** @description Factor on the move of the market; see the specification. */
            multiplier: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            openedAt: string;
            /** @description Identifier of the order. */
            orderId: string;
            /** @description Profit or loss in the account currency. */
            pnl: number;
            /** @description What was requested, in USD. */
            stake: number;
            /** @description The stake in the account's currency, rounded down to its decimals; only on accounts in another currency than USD. */
            stakeInAccount?: number;
            /**
             * @description Sold or stopped out.
             * @constant
             */
            status: "CLOSED";
            /** @description null: none. One that was changed at the broker is shown as it is now. */
            stopLoss: number | null;
            /** @description null: none. One that was changed at the broker is shown as it is now. */
            takeProfit: number | null;
        };
        /**
         * ClosedOrder
         * @description An order with its result.
         */
        ClosedOrder: {
            /** @description The broker's contract id. */
            brokerOrderId: string;
            /** @description What the contract cost in the account currency: the stake, and the markup where the broker charges it on top. */
            buyPrice: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            closedAt: string;
            /** @description Price at the start; null when it was sold before its first tick. */
            entryPrice: number | null;
            /** @description Units of the account's currency that one USD was worth at the broker right before the purchase; only with stakeInAccount. */
            exchangeRate?: number;
            /** @description Price that decided the result; null when the broker gave none. */
            exitPrice: number | null;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            openedAt: string;
            /** @description Identifier of the order. */
            orderId: string;
            /** @description Profit or loss in the account currency. */
            pnl: number;
            /** @description What the contract pays if it wins, in the account currency. */
            potentialPayout: number;
            /** @description What was requested, in USD. */
            stake: number;
            /** @description The stake in the account's currency, rounded down to its decimals; only on accounts in another currency than USD. */
            stakeInAccount?: number;
            /**
             * @description Settled or sold.
             * @constant
             */
            status: "CLOSED";
        };
        /** CollectedTrade */
        CollectedTrade: {
            /**
             * Format: date-time
             * @description When the record was first collected; ISO 8601, UTC.
             */
            collectedAt: string;
            /** @description Whether the contract had been recorded before; then nothing changed. */
            duplicate: boolean;
            /** @description Identifier of the record. */
            tradeId: string;
        };
        /** CommunityBot */
        CommunityBot: {
            author: components["schemas"]["Author"];
            /** @description Identifier of the community bot. */
            botId: string;
            /** @description Its settings, as given; empty when none were. */
            config: {
                [key: string]: unknown;
            };
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description What it does; null when not given. */
            description: string | null;
            /** @description Whether the acting party likes it. */
            liked: boolean;
            /** @description How many parties like it. */
            likes: number;
            /** @description Name of the bot. */
            name: string;
            /** @description Broker symbol it is made for; null when not given. */
            symbol: string | null;
        };
        /** CommunityBotList */
        CommunityBotList: {
            /** @description The newest first. */
            data: components["schemas"]["CommunityBot"][];
        };
        /** Connection */
        Connection: {
            /** @description The broker's account id. */
            activeAccountId: string;
            /**
             * @description Real money or a demo account.
             * @enum {string}
             */
            activeAccountMode: "REAL" | "DEMO";
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            connectedAt: string;
            /** @description Identifier of the trader. */
            traderId: string;
        };
        /** CreatorBot */
        CreatorBot: {
            /** @description Identifier of the bot. */
            botId: string;
            /**
             * @description Kind of strategy.
             * @enum {string}
             */
            category: "trend" | "scalp" | "grid" | "ai" | "arbitrage" | "custom";
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description Who made it. */
            creator: {
                /** @description Name shown to others. */
                displayName: string;
            };
            /**
             * Format: uri
             * @description Address of a video.
             */
            demoVideoUrl: string | null;
            /** @description What it does, in a sentence or two. */
            description: string;
            /** @description Purchases and subscriptions, less those paid back. */
            downloads: number;
            /** @description Everything a buyer should know. */
            longDescription: string | null;
            /** @description Price of a month in USD; 0 is free, null is not offered. */
            monthlyPriceUsd: number | null;
            /** @description Name of the bot. */
            name: string;
            /** @description Price of a purchase in USD; 0 is free, null is not offered. */
            oneTimePriceUsd: number | null;
            /**
             * Format: date-time
             * @description First publication; null for a draft.
             */
            publishedAt: string | null;
            /** @description Average of the reviews with two decimals; null while there are none. */
            rating: number | null;
            /** @description How many reviews. */
            reviews: number;
            /**
             * @description How much may be lost, in the creator’s judgement.
             * @enum {string}
             */
            riskLevel: "low" | "medium" | "high";
            /** @description Addresses of pictures. */
            screenshots: string[];
            /**
             * @description DRAFT: not yet shown. PUBLISHED: listed and sold. RETIRED: neither; buyers keep theirs.
             * @enum {string}
             */
            status: "DRAFT" | "PUBLISHED" | "RETIRED";
            /** @description The strategy in the creator's words. */
            strategyType: string;
            /** @description Broker symbols the bot is made for. */
            supportedAssets: string[];
            /**
             * Format: date-time
             * @description Last change of its facts, code or state.
             */
            updatedAt: string;
            /** @description Version of the code. */
            version: string;
        };
        /** CreatorBots */
        CreatorBots: {
            /** @description The entries, newest first. */
            data: components["schemas"]["CreatorBot"][];
        };
        /** DeletedCommunityBot */
        DeletedCommunityBot: {
            /** @description Identifier of the community bot. */
            botId: string;
            /**
             * @description Always true.
             * @constant
             */
            deleted: true;
        };
        /** DeletedMessage */
        DeletedMessage: {
            /**
             * @description Always true.
             * @constant
             */
            deleted: true;
            /** @description Identifier of the message. */
            messageId: string;
        };
        /** DeletedWebhook */
        DeletedWebhook: {
            /**
             * @description Nothing more is sent to it.
             * @constant
             */
            deleted: true;
            /** @description Identifier of the endpoint. */
            webhookId: string;
        };
        /** Delivery */
        Delivery: {
            /**
             * Format: date-time
             * @description When it was sent; of a PENDING one, since when it waits.
             */
            at: string;
            /** @description Which attempt of this event it is; a retry of one that does not wait any more, or a replay, counts from 1 again. */
            attempt: number;
            /** @description Identifier of the attempt. */
            deliveryId: string;
            /**
             * @description Why it failed. HTTP_STATUS: the response was no 2xx; REDIRECT: the response was a redirect, which is not followed; GONE: the response was 410, which disables the endpoint; TIMEOUT: no response within 15 s; CONNECTION_FAILED: the connection was refused, reset or closed before the response; TLS_FAILED: the certificate or the TLS handshake was not accepted; ADDRESS_NOT_ALLOWED: the name does not resolve to public addresses alone; INVALID_EVENT: the event cannot be shown; it is not tried again; EXPIRED: the event is not kept any more; it is not tried again; SECRET_UNREADABLE: the secret cannot be decrypted: rotate it.
             * @enum {string|null}
             */
            error: "HTTP_STATUS" | "REDIRECT" | "GONE" | "TIMEOUT" | "CONNECTION_FAILED" | "TLS_FAILED" | "ADDRESS_NOT_ALLOWED" | "INVALID_EVENT" | "EXPIRED" | "SECRET_UNREADABLE" | null;
            /** @description The event; null of one that the log dropped before, and of a test. */
            eventId: string | null;
            /** @description Status of the response; null without one. */
            httpStatus: number | null;
            /** @description How long the attempt took, ms; null where nothing was sent. */
            ms: number | null;
            /**
             * Format: date-time
             * @description When the event is sent again, at the earliest.
             */
            nextAt: string | null;
            /** @description Whether a retry or a replay was requested. */
            replay: boolean;
            /** @description The beginning of the response, at most 1 KiB, as text. Never show it as HTML. */
            response: string | null;
            /**
             * @description PENDING: not sent yet. RETRYING: this attempt failed, and the event is sent again at `nextAt`. FAILED: it is not sent again by itself.
             * @enum {string}
             */
            status: "PENDING" | "DELIVERED" | "RETRYING" | "FAILED";
            /** @description Type of the event. */
            type: string;
        };
        /** DeliveryPage */
        DeliveryPage: {
            /** @description The newest first. */
            data: components["schemas"]["Delivery"][];
            /** @description Pass as cursor for the next page; null on the last one. */
            nextCursor: string | null;
        };
        /** Deployment */
        Deployment: {
            /** @description Name shown on the site. */
            brandName: string;
            /**
             * Format: email
             * @description Address shown on the site.
             */
            contactEmail: string | null;
            /**
             * Format: date-time
             * @description When the site was first deployed.
             */
            createdAt: string;
            /** @description Identifier of the deployment. */
            deploymentId: string;
            /** @description The brand colour in use; the template's own when none was given. */
            primaryColor: string;
            /** @description Name of the template in addresses. */
            slug: string;
            /**
             * @description QUEUED: being rendered. LIVE: served at url. FAILED: could not be rendered. A site that was LIVE is served as it was until a newer deployment is LIVE.
             * @enum {string}
             */
            status: "QUEUED" | "LIVE" | "FAILED";
            /** @description The site's name in its address: lower-case letters, digits and hyphens. */
            tenantSlug: string;
            /** @description Where the site is served. */
            url: string;
        };
        /** DeploymentList */
        DeploymentList: {
            /** @description The partner's sites, newest first. */
            data: components["schemas"]["Deployment"][];
        };
        /** DisabledTrader */
        DisabledTrader: {
            /**
             * Format: date-time
             * @description Since when it cannot log in; null when it can.
             */
            disabledAt: string | null;
            /** @description Identifier of the trader. */
            traderId: string;
        };
        /** Earnings */
        Earnings: {
            /** @description What may be paid out; below zero after refunds of what was paid out already, USD. */
            availableUsd: number;
            /** @description Each bot that was ever published, newest first, at most 1000. */
            bots: components["schemas"]["BotEarnings"][];
            /** @description The platform's share, %. */
            feePct: number;
            /** @description Requested and not yet paid, USD. */
            heldUsd: number;
            /** @description Everything earned, after fees and refunds, USD. */
            lifetimeUsd: number;
            /** @description Paid out, USD. */
            paidOutUsd: number;
        };
        /** EndedSessions */
        EndedSessions: {
            /** @description How many sessions ended. */
            sessionsEnded: number;
            /** @description Identifier of the trader. */
            traderId: string;
        };
        /** @description Every response above 299 has this shape. Decide by `error`; `message` is for people. */
        Error: {
            /** @description With WALLET_INSUFFICIENT: what the wallet holds. */
            balanceUsd?: number;
            /** @description With VALIDATION_FAILED: the first violations, at most 20. With INVALID_CONTRACT: the field that the broker refused, where it names one. */
            details?: {
                /** @description What is wrong there. */
                message: string;
                /** @description Where, as a JSON pointer. */
                path: string;
            }[];
            /** @description Address of the code's section in the reference. */
            docs?: string;
            /**
             * @description Code of the error.
             * @enum {string}
             */
            error: "VALIDATION_FAILED" | "MALFORMED_REQUEST" | "MALFORMED_JSON" | "UNAUTHENTICATED" | "INVALID_CREDENTIALS" | "SUBSCRIPTION_INACTIVE" | "WALLET_INSUFFICIENT" | "KEY_REVOKED" | "PARTNER_SUSPENDED" | "HTTPS_REQUIRED" | "CROSS_SITE_REFUSED" | "INSUFFICIENT_SCOPE" | "NOT_FOUND" | "TRADER_NOT_FOUND" | "ACCOUNT_NOT_FOUND" | "LEADER_NOT_FOUND" | "BROKER_DISCONNECTED" | "METHOD_NOT_ALLOWED" | "REQUEST_TIMEOUT" | "CLIENT_ORDER_ID_REUSED" | "FOLLOW_MISMATCH" | "CONFLICT" | "PRICE_CHANGED" | "LIMIT_REACHED" | "IDEMPOTENCY_IN_PROGRESS" | "EMAIL_TAKEN" | "TENANT_SLUG_TAKEN" | "CURSOR_EXPIRED" | "PAYLOAD_TOO_LARGE" | "UNSUPPORTED_MEDIA_TYPE" | "IDEMPOTENCY_KEY_REUSED" | "MARKET_CLOSED" | "INVALID_CONTRACT" | "INSUFFICIENT_BALANCE" | "RATE_LIMITED" | "HEADERS_TOO_LARGE" | "INTERNAL" | "BROKER_UPSTREAM" | "TRADING_HALTED" | "UNAVAILABLE";
            /** @description With CURSOR_EXPIRED: the cursor of the newest event. */
            latest?: string;
            /** @description With LIMIT_REACHED: the bound. */
            limit?: number;
            /** @description For people; may change. */
            message: string;
            /** @description With CURSOR_EXPIRED: the cursor before the oldest event that is kept. */
            oldest?: string;
            /** @description With CLIENT_ORDER_ID_REUSED, BROKER_UPSTREAM and TRADING_HALTED: the order it is about. */
            orderId?: string;
            /** @description With PRICE_CHANGED: the price now. */
            priceUsd?: number;
            /** @description With TRADING_HALTED: why, in the operator's words. */
            reason?: string;
            /** @description Repeats X-Request-Id. */
            requestId: string;
            /** @description With INSUFFICIENT_SCOPE: what the key lacks. */
            requiredScope?: string;
            /** @description With WALLET_INSUFFICIENT: the price. */
            requiredUsd?: number;
            /** @description With SUBSCRIPTION_INACTIVE: the standing. */
            saasStatus?: string;
            /**
             * @description With TRADING_HALTED: what is halted; the widest where it is several.
             * @enum {string}
             */
            scope?: "all" | "partner" | "application" | "asset";
            /** @description With MARKET_CLOSED; null when the broker does not state it. */
            secondsUntilOpen?: number | null;
            /**
             * @description With BROKER_UPSTREAM and TRADING_HALTED: FAILED means certainly no contract, PENDING that it is not known yet, OPEN that the settlement is under review.
             * @enum {string}
             */
            status?: "PENDING" | "OPEN" | "FAILED";
            /** @description With SUBSCRIPTION_INACTIVE: what the wallet lacks. */
            topUpUsd?: number;
            /** @description With `details`: how many violations there are; counting ends at 1,000. */
            violations?: number;
        };
        /**
         * Event
         * @description `type` distinguishes them; `data` is the record as its own endpoint showed it at that moment.
         */
        Event: {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["OrderEntry"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description The contract was bought. Without result, also where that is known by now.
             * @constant
             */
            type: "order.opened";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["OrderEntry"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description The contract was settled, sold or stopped out.
             * @constant
             */
            type: "order.closed";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["FailedOrder"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description Certainly no contract. Each attempt that fails is an event.
             * @constant
             */
            type: "order.failed";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["OrderEntry"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description What the broker shows about the order is not clear; the operator decides it, or it becomes clear later.
             * @constant
             */
            type: "order.review";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["Account"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description A token of the account was exchanged.
             * @constant
             */
            type: "account.connected";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["Account"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description The broker refused the account or its token.
             * @constant
             */
            type: "account.rejected";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["Follow"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description A follow copies nothing for now; `status` has the reason.
             * @constant
             */
            type: "follow.paused";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["Payout"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description The operator agreed to a payout.
             * @constant
             */
            type: "payout.approved";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["Payout"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description A payout was paid.
             * @constant
             */
            type: "payout.paid";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["Payout"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description The operator declined a payout; the amount is available again.
             * @constant
             */
            type: "payout.rejected";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["PlanState"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description The plan fee could not be paid; read it when the plan is active again.
             * @constant
             */
            type: "plan.inactive";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["PlanState"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description The plan fee was paid and the plan is active again.
             * @constant
             */
            type: "plan.active";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            /** @description To the buyer the purchase, to the bot's creator the sale. */
            data: components["schemas"]["Purchase"] | components["schemas"]["BotSale"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description A bot was bought: to the buyer its purchase, to the creator its sale.
             * @constant
             */
            type: "bot.purchased";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            /** @description To the buyer the purchase, to the bot's creator the sale. */
            data: components["schemas"]["Purchase"] | components["schemas"]["BotSale"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description A purchase was paid back; to the buyer and to the creator.
             * @constant
             */
            type: "bot.refunded";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["Subscription"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description The next month of a bot could not be paid.
             * @constant
             */
            type: "subscription.past_due";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["KeyEntry"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description An API key was created.
             * @constant
             */
            type: "key.created";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["KeyEntry"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description An API key was revoked.
             * @constant
             */
            type: "key.revoked";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["Deployment"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description A site is served.
             * @constant
             */
            type: "deployment.live";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["Deployment"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description A site could not be rendered.
             * @constant
             */
            type: "deployment.failed";
        } | {
            /**
             * Format: date-time
             * @description When the change was made.
             */
            createdAt: string;
            data: components["schemas"]["Webhook"];
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description Place in the partner's log: 1, 2, 3 … without gaps. */
            position: number;
            /** @description The trader whose record it is; null for the partner's own. */
            traderExternalId: string | null;
            /**
             * @description A webhook endpoint was disabled because it returned 410, or only failed for five days.
             * @constant
             */
            type: "webhook.disabled";
        };
        /** EventPage */
        EventPage: {
            /** @description Whether nothing more was there at the moment of reading; with a filter, an empty page may have false. */
            caughtUp: boolean;
            /** @description Pass as `after` to go on. */
            cursor: string;
            /** @description The oldest first. */
            data: components["schemas"]["Event"][];
        };
        /** Exchange */
        Exchange: {
            /** @description Broker accounts with their tokens; a new trader trades on the first one. */
            accounts: {
                /** @description The broker's account id. */
                accountId: string;
                /**
                 * @description Real money or a demo account.
                 * @enum {string}
                 */
                accountMode: "REAL" | "DEMO";
                /** @description Account currency. */
                currency?: string;
                /** @description What the broker gave to renew the token with, where its tokens expire; stored like the token. The service renews ahead of the end; do not use it yourself meanwhile. */
                refreshToken?: string;
                /** @description The broker's token for this account; stored encrypted (AES-256-GCM), never returned. */
                token: string;
                /**
                 * Format: date-time
                 * @description When the token ends, where it does. Without a refreshToken, or when the broker refuses that one, the account is REJECTED with TOKEN_EXPIRED then; in its API v3, where no token is renewed, once the broker refuses the token after that time.
                 */
                tokenExpiresAt?: string;
            }[];
            /** @description The trader's e-mail address: your own note, any text. */
            email?: string;
            /** @description The trader's name. */
            name?: string;
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
        };
        /** FailedOrder */
        FailedOrder: {
            /** @description The broker's account id. */
            accountId: string;
            /**
             * @description Real money or a demo account.
             * @enum {string}
             */
            accountMode: "REAL" | "DEMO";
            /** @description Broker symbol: a synthetic index or a forex pair. */
            asset: string;
            /** @description The digit; required for DIGITMATCH, DIGITDIFF, DIGITOVER and DIGITUNDER, refused for the others. */
            barrier: string | null;
            /** @description The broker's contract id. */
            brokerOrderId: string | null;
            /** @description What the contract cost in the account currency: the stake, and the markup where the broker charges it on top. */
            buyPrice: number | null;
            /** @description The idempotency key; null for a copy. */
            clientOrderId: string | null;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            closedAt: string | null;
            /** @description What the broker takes for a multiplier contract; null while unknown, and for binary orders. */
            commission: number | null;
            /**
             * @description For binary orders.
             * @enum {string|null}
             */
            contractType: "CALL" | "PUT" | "DIGITMATCH" | "DIGITDIFF" | "DIGITOVER" | "DIGITUNDER" | "DIGITEVEN" | "DIGITODD" | null;
            /** @description The leader's order this one copies. */
            copiedFrom: string | null;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description Account currency. */
            currency: string | null;
            /**
             * @description For multiplier orders.
             * @enum {string|null}
             */
            direction: "up" | "down" | null;
            /** @description Length in durationUnit. */
            duration: number | null;
            /**
             * @description Ticks, seconds, minutes, hours or days.
             * @enum {string|null}
             */
            durationUnit: "t" | "s" | "m" | "h" | "d" | null;
            /** @description Market price. */
            entryPrice: number | null;
            /** @description Why the order FAILED, or why it waits for a review; null otherwise. */
            error: {
                /** @description Code of the refusal, or REVIEW_REQUIRED. */
                error: string;
                /** @description In words. */
                message: string;
            } | null;
            /** @description Units of the account's currency that one USD was worth at the broker right before the purchase; only with stakeInAccount. */
            exchangeRate: number | null;
            /** @description Market price. */
            exitPrice: number | null;
            /**
             * @description Kind of order.
             * @enum {string}
             */
            kind: "BINARY" | "MULTIPLIER";
            /** @description What your application earns by the contract, in the account currency, by the broker's own state of it; null: not known (yet), which is not 0. */
            markup: number | null;
            /** @description For multiplier orders. */
            multiplier: number | null;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            openedAt: string | null;
            /** @description Identifier of the order. */
            orderId: string;
            /** @description Profit or loss in the account currency. */
            pnl: number | null;
            /** @description What the contract pays if it wins, in the account currency. */
            potentialPayout: number | null;
            /** @description Of a copy: whether its stake was raised to the broker's minimum; null for other orders. */
            raisedToMinimum: boolean | null;
            /** @description Whether the same clientOrderId may try again; order.opened may follow then. false for a copy, which has none. */
            retryable: boolean;
            /** @description What was requested, in USD. */
            stake: number;
            /** @description The stake in the account's currency, rounded down to its decimals; only on accounts in another currency than USD. */
            stakeInAccount: number | null;
            /**
             * @description PENDING: accepted, the broker's response not yet known. OPEN: bought. CLOSED: settled, sold or stopped out. FAILED: certainly no contract.
             * @enum {string}
             */
            status: "PENDING" | "OPEN" | "CLOSED" | "FAILED";
            /** @description For multiplier orders; null: none. */
            stopLoss: number | null;
            /** @description For multiplier orders; null: none. */
            takeProfit: number | null;
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
        };
        /** Follow */
        Follow: {
            /** @description The account that copies go to: the one that was active when the follow began. */
            accountId: string;
            /**
             * @description Real money or a demo account.
             * @enum {string}
             */
            accountMode: "REAL" | "DEMO";
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description Of that account; null while it is not known. */
            currency: string | null;
            /** @description Identifier of the follow. */
            followId: string;
            /** @description The last of them, and why; null when there was none. */
            lastSkipped: {
                /**
                 * Format: date-time
                 * @description ISO 8601, UTC.
                 */
                at: string;
                /** @description The leader's order. */
                orderId: string;
                /**
                 * @description DRAWDOWN: it did not fit into maxDrawdownPct. MISMATCH: the accounts differ in mode or currency. DISCONNECTED: the broker refused the token. PARTNER_INACTIVE: the plan is unpaid or suspended. LEADER_CLOSED: the leader had closed it already. LEADER_PRIVATE: the leader belongs to another partner, whose profile is not public any more. SAME_ACCOUNT: the leader placed it on this very account. TRADING_HALTED: placing was halted.
                 * @enum {string}
                 */
                reason: "DRAWDOWN" | "MISMATCH" | "DISCONNECTED" | "PARTNER_INACTIVE" | "LEADER_CLOSED" | "LEADER_PRIVATE" | "SAME_ACCOUNT" | "TRADING_HALTED";
            } | null;
            /** @description Identifier of the leader. */
            leaderId: string;
            /** @description What may be lost, in percent of the balance at the time of following. */
            maxDrawdownPct: number;
            /** @description Whether copies are sold when the leader closes its order. */
            mirrorCloses: boolean;
            /** @description Copies not closed yet. */
            openCopies: number;
            /** @description A copy's stake in percent of the leader's. */
            riskPct: number;
            /** @description The leader's orders that were not copied. */
            skippedCopies: number;
            /**
             * @description PAUSED_DRAWDOWN: no copy fits into maxDrawdownPct any more; following again resumes it. PAUSED_MISMATCH: the leader's account differs from accountId in mode or currency; it resumes by itself when they agree again.
             * @enum {string}
             */
            status: "ACTIVE" | "PAUSED_DRAWDOWN" | "PAUSED_MISMATCH" | "STOPPED";
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
        };
        /** FollowList */
        FollowList: {
            /** @description The newest first. */
            data: components["schemas"]["FollowStanding"][];
        };
        /** FollowRequest */
        FollowRequest: {
            /** @description Identifier of the leader. */
            leaderId: string;
            /** @description What may be lost, in percent of the balance at the time of following. An order is copied only if what is lost since, the worst case of open copies and its own worst case (the stake; of a multiplier its stop loss, if it has one) stay within it. Until it is bought, a copy under another application than the leader’s counts with the most that the application may charge. Default: 20. */
            maxDrawdownPct?: number;
            /** @description Whether copies are sold when the leader closes the order they copy. A stop loss or take profit that the leader changes later is set on its open copies either way. Default: true. */
            mirrorCloses?: boolean;
            /** @description A copy's stake in percent of the leader's. Default: 100. */
            riskPct?: number;
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
        };
        /** FollowStanding */
        FollowStanding: {
            /** @description The account that copies go to: the one that was active when the follow began. */
            accountId: string;
            /**
             * @description Real money or a demo account.
             * @enum {string}
             */
            accountMode: "REAL" | "DEMO";
            /** @description Copies made, refused ones included. */
            copiedOrders: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description Of that account; null while it is not known. */
            currency: string | null;
            /** @description Loss since following in percent of the balance then; 0 in profit, null for a balance of 0. */
            drawdownPct: number | null;
            /** @description Identifier of the follow. */
            followId: string;
            /** @description The last of them, and why; null when there was none. */
            lastSkipped: {
                /**
                 * Format: date-time
                 * @description ISO 8601, UTC.
                 */
                at: string;
                /** @description The leader's order. */
                orderId: string;
                /**
                 * @description DRAWDOWN: it did not fit into maxDrawdownPct. MISMATCH: the accounts differ in mode or currency. DISCONNECTED: the broker refused the token. PARTNER_INACTIVE: the plan is unpaid or suspended. LEADER_CLOSED: the leader had closed it already. LEADER_PRIVATE: the leader belongs to another partner, whose profile is not public any more. SAME_ACCOUNT: the leader placed it on this very account. TRADING_HALTED: placing was halted.
                 * @enum {string}
                 */
                reason: "DRAWDOWN" | "MISMATCH" | "DISCONNECTED" | "PARTNER_INACTIVE" | "LEADER_CLOSED" | "LEADER_PRIVATE" | "SAME_ACCOUNT" | "TRADING_HALTED";
            } | null;
            /** @description Identifier of the leader. */
            leaderId: string;
            /** @description What may be lost, in percent of the balance at the time of following. */
            maxDrawdownPct: number;
            /** @description Whether copies are sold when the leader closes its order. */
            mirrorCloses: boolean;
            /** @description Copies not closed yet. */
            openCopies: number;
            /** @description Profit or loss of the closed copies. */
            pnl: number;
            /** @description A copy's stake in percent of the leader's. */
            riskPct: number;
            /** @description The leader's orders that were not copied. */
            skippedCopies: number;
            /**
             * @description PAUSED_DRAWDOWN: no copy fits into maxDrawdownPct any more; following again resumes it. PAUSED_MISMATCH: the leader's account differs from accountId in mode or currency; it resumes by itself when they agree again.
             * @enum {string}
             */
            status: "ACTIVE" | "PAUSED_DRAWDOWN" | "PAUSED_MISMATCH" | "STOPPED";
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
        };
        /**
         * Indicators
         * @description The indicators computed from the candles.
         */
        Indicators: {
            /** @description Average true range over 14 candles; null with too few candles. */
            atr: number | null;
            /** @description Lower Bollinger band; null with too few candles. */
            bollingerLower: number | null;
            /** @description Middle Bollinger band; null with too few candles. */
            bollingerMiddle: number | null;
            /** @description Upper Bollinger band, 20 candles and 2 deviations; null with too few candles. */
            bollingerUpper: number | null;
            /** @description Exponential moving average over 9 candles; null with too few candles. */
            emaFast: number | null;
            /** @description Exponential moving average over 21 candles; null with too few candles. */
            emaSlow: number | null;
            /** @description Latest price; null with too few candles. */
            lastPrice: number | null;
            /** @description MACD line, 12 and 26 candles; null with too few candles. */
            macd: number | null;
            /** @description MACD line minus its signal line; null with too few candles. */
            macdHistogram: number | null;
            /** @description MACD signal line, 9 candles; null with too few candles. */
            macdSignal: number | null;
            /** @description Relative strength index over 14 candles; null with too few candles. */
            rsi: number | null;
        };
        /** IssuedKey */
        IssuedKey: {
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description The key itself, shown this once only. For servers; never send it to a browser. */
            key: string;
            /** @description Identifier of the key; not secret. */
            keyId: string;
            /** @description null when none was given. */
            label: string | null;
            /** @description Scopes of the key, '<area>:<read or write>'. */
            scopes: ("trading:read" | "trading:write" | "copy:read" | "copy:write" | "ai:read" | "ai:write" | "templates:read" | "templates:write" | "traders:read" | "traders:write" | "trades:read" | "trades:write" | "usage:read" | "usage:write" | "community:read" | "community:write" | "marketplace:read" | "marketplace:write" | "events:read" | "events:write" | "webhooks:read" | "webhooks:write" | "analytics:read" | "analytics:write" | "admin:read" | "admin:write")[];
            /** @description true: a key of the test side. Left out of other keys. */
            test?: boolean;
        };
        /**
         * IssuedWebhook
         * @description A webhook endpoint, without its secret.
         */
        IssuedWebhook: {
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description null when none was given. */
            description: string | null;
            /**
             * @description Only while DISABLED. PARTNER and OPERATOR: who did it; GONE: the endpoint returned 410; FAILURES: it only failed for five days.
             * @enum {string|null}
             */
            disabledReason: "PARTNER" | "OPERATOR" | "GONE" | "FAILURES" | null;
            /**
             * Format: date-time
             * @description When the first of the attempts failed that have failed since the last success; null after a success.
             */
            failingSince: string | null;
            /**
             * @description Why the last attempt failed; null after a success.
             * @enum {string|null}
             */
            lastError: "HTTP_STATUS" | "REDIRECT" | "GONE" | "TIMEOUT" | "CONNECTION_FAILED" | "TLS_FAILED" | "ADDRESS_NOT_ALLOWED" | "INVALID_EVENT" | "EXPIRED" | "SECRET_UNREADABLE" | null;
            /** @description Events that could not be delivered before the log dropped them. Compare your records when it grows. */
            missedEvents: number;
            /** @description With it you verify signatures. Shown this once only. */
            secret: string;
            /**
             * @description FAILING: the last five attempts failed; one event at a time is tried until one is delivered. DISABLED: nothing is sent.
             * @enum {string}
             */
            status: "ENABLED" | "FAILING" | "DISABLED";
            /** @description Types of the events that are sent; null: all, those of later versions included. */
            types: string[] | null;
            /**
             * Format: uri
             * @description Where events are sent: https, without user information and fragment. The name must resolve to public addresses; that is checked at each connection.
             */
            url: string;
            /** @description Identifier of the endpoint. */
            webhookId: string;
        };
        /** KeyEntry */
        KeyEntry: {
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description The part of the key that is not secret, to recognise it by. */
            hint: string;
            /** @description Identifier of the key; not secret. */
            keyId: string;
            /** @description null when none was given. */
            label: string | null;
            /**
             * Format: date-time
             * @description To within some seconds; null before its first use.
             */
            lastUsedAt: string | null;
            /**
             * Format: date-time
             * @description null while the key is valid.
             */
            revokedAt: string | null;
            /** @description Scopes of the key, '<area>:<read or write>'. */
            scopes: ("trading:read" | "trading:write" | "copy:read" | "copy:write" | "ai:read" | "ai:write" | "templates:read" | "templates:write" | "traders:read" | "traders:write" | "trades:read" | "trades:write" | "usage:read" | "usage:write" | "community:read" | "community:write" | "marketplace:read" | "marketplace:write" | "events:read" | "events:write" | "webhooks:read" | "webhooks:write" | "analytics:read" | "analytics:write" | "admin:read" | "admin:write")[];
            /** @description true: a key of the test side. Left out of other keys. */
            test?: boolean;
        };
        /** KeyList */
        KeyList: {
            /** @description The newest first. */
            data: components["schemas"]["KeyEntry"][];
        };
        /** Leader */
        Leader: {
            /**
             * @description Of the leader's active account.
             * @enum {string}
             */
            accountMode: "REAL" | "DEMO";
            /** @description Of the leader's active account; null while it is not known. */
            currency: string | null;
            /** @description The leader's name as it is shown; Trader and four characters where it has none. */
            displayName: string;
            /** @description Active followers. */
            followers: number;
            /** @description Identifier of the leader. */
            leaderId: string;
            /** @description The same fall as an amount. */
            maxDrawdown: number;
            /** @description Largest fall of the running profit from its peak, in percent of all stakes of the 30 days. Of contracts that closed in the same second losses come first. */
            maxDrawdownPct: number;
            /** @description Their profit or loss together. */
            pnl: number;
            /**
             * @description tenant: the caller's own traders; global: those of every partner whose community profile is public.
             * @enum {string}
             */
            scope: "tenant" | "global";
            /** @description Orders closed in the last 30 days in this mode and currency, copies left out. */
            trades: number;
            /** @description Share of them that made a profit. */
            winRatePct: number;
        };
        /** Leaderboard */
        Leaderboard: {
            /** @description REAL before DEMO, then by currency, the best first. */
            data: components["schemas"]["LeaderboardEntry"][];
        };
        /** LeaderboardEntry */
        LeaderboardEntry: {
            /**
             * @description Real money or a demo account.
             * @enum {string}
             */
            accountMode: "REAL" | "DEMO";
            /**
             * Format: uri
             * @description Address of a picture (http or https), or null.
             */
            avatarUrl: string | null;
            /** @description null where it is not known. */
            currency: string | null;
            /** @description Name shown to others; a default one until it is set: the partner's name, or Trader and four characters. */
            displayName: string;
            /** @description Sum of profit and loss, in that currency. */
            pnl: number;
            /** @description Place by pnl, within one mode and currency. */
            rank: number;
            /** @description Closed orders and collected trades. */
            trades: number;
            /** @description Share of trades with a profit, to two decimals. */
            winRatePct: number;
        };
        /** LeaderList */
        LeaderList: {
            /** @description REAL before DEMO, then by currency, the best first. */
            data: components["schemas"]["Leader"][];
        };
        /** Like */
        Like: {
            /** @description Identifier of the community bot. */
            botId: string;
            /** @description Whether the acting party likes it. */
            liked: boolean;
            /** @description How many parties like it. */
            likes: number;
        };
        /** LoggedOut */
        LoggedOut: {
            /**
             * @description Always true.
             * @constant
             */
            loggedOut: true;
        };
        /** Login */
        Login: {
            /** @description The e-mail address of the sign-up, in any case. */
            email: string;
            /** @description The password of the sign-up. */
            password: string;
        };
        /** Marketplace */
        Marketplace: {
            /**
             * Format: date-time
             * @description The instant that the response is of: what was committed by then is counted.
             */
            asOf: string;
            /** @description false while something of the window is still unknown: it is not over, a contract is open, a markup is unknown, or an order is in doubt; of activity also while an order that failed in the last hour may be repeated. A window without `to` is over. */
            complete: boolean;
            /** @description The rows, oldest bucket first. */
            data: {
                /** @description The platform's share of it, in USD. */
                feesUsd: number;
                /** @description What buyers paid, less refunds, in USD. */
                grossUsd: number;
                /** @description What you earned, in USD. */
                netUsd: number;
                /** @description Sales and months taken back. */
                refunds: number;
                /** @description Bots sold. */
                sales: number;
                /**
                 * Format: date-time
                 * @description Start of the bucket, or `from` where that is later.
                 */
                start: string;
                /** @description Months of subscriptions paid. */
                subscriptions: number;
            }[];
            /**
             * Format: date-time
             * @description Start of the window, inclusive.
             */
            from: string;
            /**
             * @description Length of a bucket. Weeks begin on Monday. Default: "day".
             * @enum {string}
             */
            interval: "hour" | "day" | "week" | "month";
            /** @description By whose clocks buckets begin. */
            timezone: string;
            /**
             * Format: date-time
             * @description End of the window, exclusive.
             */
            to: string;
        };
        /** Message */
        Message: {
            author: components["schemas"]["Author"];
            /** @description Text of the message. */
            content: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description Identifier of the message. */
            messageId: string;
            /** @description Whether the acting party wrote it. */
            mine: boolean;
        };
        /** MessageList */
        MessageList: {
            /** @description The newest first. */
            data: components["schemas"]["Message"][];
        };
        /**
         * MultiplierOrder
         * @description `status` distinguishes them: CLOSED with the result, OPEN without.
         */
        MultiplierOrder: components["schemas"]["ClosedMultiplierOrder"] | components["schemas"]["OpenMultiplierOrder"];
        /** MultiplierOrderRequest */
        MultiplierOrderRequest: {
            /** @description Broker symbol: a synthetic index or a forex pair. */
            asset: string;
            /** @description The idempotency key, unique per partner for ever; a UUID v4 is expected. */
            clientOrderId: string;
            /**
             * @description Direction in which the market is expected to move.
             * @enum {string}
             */
            direction: "up" | "down";
            /**
             * @description Place the order only on an account of this mode: 409 CONFLICT, and nothing is bought, while the trader's active account is of the other one.
             * @enum {string}
             */
            expectedAccountMode?: "REAL" | "DEMO";
            /** @description Factor on the move of the market; see the specification. */
            multiplier: number;
            /** @description Stake in USD, at least 1. On an account in another currency it is converted at the broker's own rate right before the purchase and rounded down to the currency's decimals. */
            stake: number;
            /** @description Close when the loss reaches this amount of the account's currency, unlike the stake, which is in USD; 0 or absent: none. */
            stopLoss?: number;
            /** @description Close when the profit reaches this amount of the account's currency, unlike the stake, which is in USD; 0 or absent: none. */
            takeProfit?: number;
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
        };
        /** MultiplierSpec */
        MultiplierSpec: {
            /** @description Broker symbol: a synthetic index or a forex pair. */
            asset: string;
            /** @description Lengths of deal cancellation. */
            cancellation: string[];
            /** @description Commission in percent of stake × multiplier; null when the broker does not state it. */
            commissionPct: number | null;
            /** @description Account currency. */
            currency: string;
            /** @description Whether the market is open. */
            marketOpen: boolean;
            /** @description Largest stake; null when the broker does not state it. */
            maxStake: number | null;
            /** @description Smallest stake. */
            minStake: number;
            /** @description Factors the broker offers. */
            multipliers: number[];
            /** @description While the market is closed, when the broker states it. */
            secondsUntilOpen?: number;
        };
        /** NewBot */
        NewBot: {
            /**
             * @description Kind of strategy.
             * @enum {string}
             */
            category: "trend" | "scalp" | "grid" | "ai" | "arbitrage" | "custom";
            /** @description The bot itself. */
            code: string;
            /**
             * Format: uri
             * @description Address of a video.
             */
            demoVideoUrl?: string;
            /** @description What it does, in a sentence or two. */
            description: string;
            /** @description Everything a buyer should know. */
            longDescription?: string;
            /** @description Price of a month in USD, with at most two decimals; 0 is free, left out it is not offered. */
            monthlyPriceUsd?: number;
            /** @description Name of the bot. */
            name: string;
            /** @description Price of a purchase in USD, with at most two decimals; 0 is free, left out it is not offered. */
            oneTimePriceUsd?: number;
            /**
             * @description How much may be lost, in the creator’s judgement.
             * @enum {string}
             */
            riskLevel: "low" | "medium" | "high";
            /** @description Addresses of pictures. */
            screenshots?: string[];
            /** @description The strategy in the creator's words. */
            strategyType: string;
            /** @description Broker symbols the bot is made for. */
            supportedAssets?: string[];
            /** @description Version of the code. */
            version?: string;
        };
        /** NewCommunityBot */
        NewCommunityBot: {
            /** @description Its settings, free-form. At most 16 KiB of JSON, nested 20 deep at most. */
            config?: {
                [key: string]: unknown;
            };
            /** @description What it does. */
            description?: string;
            /** @description Name of the bot. */
            name: string;
            /** @description Broker symbol it is made for. */
            symbol?: string;
        };
        /** NewDeployment */
        NewDeployment: {
            /** @description Name shown on the site. */
            brandName: string;
            /**
             * Format: email
             * @description Address shown on the site.
             */
            contactEmail?: string;
            /** @description Brand colour, '#' and six hex digits. */
            primaryColor?: string;
            /** @description The site's name in its address: lower-case letters, digits and hyphens. */
            tenantSlug: string;
        };
        /** NewKey */
        NewKey: {
            /** @description What the key is for, in the words of its owner. */
            label?: string;
            /** @description What the key may do; without it everything but admin, which only the operator grants. */
            scopes?: ("trading:read" | "trading:write" | "copy:read" | "copy:write" | "ai:read" | "ai:write" | "templates:read" | "templates:write" | "traders:read" | "traders:write" | "trades:read" | "trades:write" | "usage:read" | "usage:write" | "community:read" | "community:write" | "marketplace:read" | "marketplace:write" | "events:read" | "events:write" | "webhooks:read" | "webhooks:write" | "analytics:read" | "analytics:write")[];
            /** @description A key of the test side: everything under it lives apart, its orders go to a simulated broker, and its wallet holds play money. Default: false. */
            test?: boolean;
        };
        /** NewMessage */
        NewMessage: {
            /** @description Text of the message. */
            content: string;
        };
        /** NewPassword */
        NewPassword: {
            /** @description At least 8 characters, and not a common one. */
            newPassword: string;
            /** @description The token of the reset. */
            resetToken: string;
        };
        /** NewPayout */
        NewPayout: {
            /** @description USD, with at most two decimals, not more than is available. */
            amountUsd: number;
            /** @description Where to pay: an address of exactly 34 characters. One whose checksum (base58check) is wrong is accepted, and marked. */
            destinationAddress: string;
        };
        /** NewReplay */
        NewReplay: {
            /** @description Events after this cursor. Either this or `since`. */
            after?: string;
            /**
             * Format: date-time
             * @description Events from this instant on. Either this or `after`.
             */
            since?: string;
            /** @description Only events of these types; without it all. */
            types?: ("order.opened" | "order.closed" | "order.failed" | "order.review" | "account.connected" | "account.rejected" | "follow.paused" | "payout.approved" | "payout.paid" | "payout.rejected" | "plan.inactive" | "plan.active" | "bot.purchased" | "bot.refunded" | "subscription.past_due" | "key.created" | "key.revoked" | "deployment.live" | "deployment.failed" | "webhook.disabled")[];
            /**
             * Format: date-time
             * @description Events before this instant; without it all that the endpoint has passed.
             */
            until?: string;
        };
        /** NewReportToken */
        NewReportToken: {
            /** @description A token of the application's owner at the broker, with the scope to read. */
            token: string;
        };
        /** NewReview */
        NewReview: {
            /** @description Words with it. */
            comment?: string;
            /** @description From 1 to 5. */
            rating: number;
        };
        /** NewTicket */
        NewTicket: {
            /** @description The only assets whose ticks it may subscribe to; any without it. Not without the channel ticks. */
            assets?: string[];
            /** @description What the socket may subscribe to; all channels without it. */
            channels?: ("events" | "ticks")[];
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
            /** @description Within how many seconds the socket must be opened. Default: 60. */
            ttlSeconds?: number;
        };
        /** NewWebhook */
        NewWebhook: {
            /** @description What the endpoint is for, in the words of its owner. */
            description?: string;
            /** @description Only events of these types; without it all. */
            types?: ("order.opened" | "order.closed" | "order.failed" | "order.review" | "account.connected" | "account.rejected" | "follow.paused" | "payout.approved" | "payout.paid" | "payout.rejected" | "plan.inactive" | "plan.active" | "bot.purchased" | "bot.refunded" | "subscription.past_due" | "key.created" | "key.revoked" | "deployment.live" | "deployment.failed" | "webhook.disabled")[];
            /**
             * Format: uri
             * @description Where events are sent: https, without user information and fragment. The name must resolve to public addresses; that is checked at each connection.
             */
            url: string;
        };
        /**
         * OpenMultiplierOrder
         * @description A multiplier order whose contract runs.
         */
        OpenMultiplierOrder: {
            /** @description Broker symbol: a synthetic index or a forex pair. */
            asset: string;
            /** @description The broker's contract id. */
            brokerOrderId: string;
            /** @description What the contract cost in the account currency. */
            buyPrice: number;
            /** @description Commission of the broker; null while it is not known. */
            commission: number | null;
            /**
             * @description Direction in which the market is expected to move.
             * @enum {string}
             */
            direction: "up" | "down";
            /** @description Units of the account's currency that one USD was worth at the broker right before the purchase; only with stakeInAccount. */
            exchangeRate?: number;
            /** @description Factor on the move of the market; see the specification. */
            multiplier: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            openedAt: string;
            /** @description Identifier of the order. */
            orderId: string;
            /** @description What was requested, in USD. */
            stake: number;
            /** @description The stake in the account's currency, rounded down to its decimals; only on accounts in another currency than USD. */
            stakeInAccount?: number;
            /**
             * @description Bought.
             * @constant
             */
            status: "OPEN";
            /** @description null: none. One that was changed at the broker is shown as it is now. */
            stopLoss: number | null;
            /** @description null: none. One that was changed at the broker is shown as it is now. */
            takeProfit: number | null;
        };
        /**
         * OpenOrder
         * @description An order whose contract runs; it settles by itself.
         */
        OpenOrder: {
            /** @description The broker's contract id. */
            brokerOrderId: string;
            /** @description What the contract cost in the account currency: the stake, and the markup where the broker charges it on top. */
            buyPrice: number;
            /** @description Units of the account's currency that one USD was worth at the broker right before the purchase; only with stakeInAccount. */
            exchangeRate?: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            openedAt: string;
            /** @description Identifier of the order. */
            orderId: string;
            /** @description What the contract pays if it wins, in the account currency. */
            potentialPayout: number;
            /** @description What was requested, in USD. */
            stake: number;
            /** @description The stake in the account's currency, rounded down to its decimals; only on accounts in another currency than USD. */
            stakeInAccount?: number;
            /**
             * @description Bought.
             * @constant
             */
            status: "OPEN";
        };
        /**
         * Order
         * @description `status` distinguishes them: CLOSED with the result, OPEN without.
         */
        Order: components["schemas"]["ClosedOrder"] | components["schemas"]["OpenOrder"];
        /** OrderEntry */
        OrderEntry: {
            /** @description The broker's account id. */
            accountId: string;
            /**
             * @description Real money or a demo account.
             * @enum {string}
             */
            accountMode: "REAL" | "DEMO";
            /** @description Broker symbol: a synthetic index or a forex pair. */
            asset: string;
            /** @description The digit; required for DIGITMATCH, DIGITDIFF, DIGITOVER and DIGITUNDER, refused for the others. */
            barrier: string | null;
            /** @description The broker's contract id. */
            brokerOrderId: string | null;
            /** @description What the contract cost in the account currency: the stake, and the markup where the broker charges it on top. */
            buyPrice: number | null;
            /** @description The idempotency key; null for a copy. */
            clientOrderId: string | null;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            closedAt: string | null;
            /** @description What the broker takes for a multiplier contract; null while unknown, and for binary orders. */
            commission: number | null;
            /**
             * @description For binary orders.
             * @enum {string|null}
             */
            contractType: "CALL" | "PUT" | "DIGITMATCH" | "DIGITDIFF" | "DIGITOVER" | "DIGITUNDER" | "DIGITEVEN" | "DIGITODD" | null;
            /** @description The leader's order this one copies. */
            copiedFrom: string | null;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description Account currency. */
            currency: string | null;
            /**
             * @description For multiplier orders.
             * @enum {string|null}
             */
            direction: "up" | "down" | null;
            /** @description Length in durationUnit. */
            duration: number | null;
            /**
             * @description Ticks, seconds, minutes, hours or days.
             * @enum {string|null}
             */
            durationUnit: "t" | "s" | "m" | "h" | "d" | null;
            /** @description Market price. */
            entryPrice: number | null;
            /** @description Why the order FAILED, or why it waits for a review; null otherwise. */
            error: {
                /** @description Code of the refusal, or REVIEW_REQUIRED. */
                error: string;
                /** @description In words. */
                message: string;
            } | null;
            /** @description Units of the account's currency that one USD was worth at the broker right before the purchase; only with stakeInAccount. */
            exchangeRate: number | null;
            /** @description Market price. */
            exitPrice: number | null;
            /**
             * @description Kind of order.
             * @enum {string}
             */
            kind: "BINARY" | "MULTIPLIER";
            /** @description What your application earns by the contract, in the account currency, by the broker's own state of it; null: not known (yet), which is not 0. */
            markup: number | null;
            /** @description For multiplier orders. */
            multiplier: number | null;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            openedAt: string | null;
            /** @description Identifier of the order. */
            orderId: string;
            /** @description Profit or loss in the account currency. */
            pnl: number | null;
            /** @description What the contract pays if it wins, in the account currency. */
            potentialPayout: number | null;
            /** @description Of a copy: whether its stake was raised to the broker's minimum; null for other orders. */
            raisedToMinimum: boolean | null;
            /** @description What was requested, in USD. */
            stake: number;
            /** @description The stake in the account's currency, rounded down to its decimals; only on accounts in another currency than USD. */
            stakeInAccount: number | null;
            /**
             * @description PENDING: accepted, the broker's response not yet known. OPEN: bought. CLOSED: settled, sold or stopped out. FAILED: certainly no contract.
             * @enum {string}
             */
            status: "PENDING" | "OPEN" | "CLOSED" | "FAILED";
            /** @description For multiplier orders; null: none. */
            stopLoss: number | null;
            /** @description For multiplier orders; null: none. */
            takeProfit: number | null;
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
        };
        /** OrderPage */
        OrderPage: {
            /** @description The newest first. */
            data: components["schemas"]["OrderEntry"][];
            /** @description Pass as cursor for the next page; null on the last one. */
            nextCursor: string | null;
        };
        /** Partner */
        Partner: {
            /** @description Display name of the operator. */
            name: string;
            /** @description Identifier of the partner. */
            partnerId: string;
            /**
             * @description Tier of the plan.
             * @enum {string}
             */
            plan: "LAUNCH" | "PRO" | "SCALE";
            /**
             * @description ACTIVE: the plan is paid. INACTIVE: its fee is unpaid. SUSPENDED: stopped by the operator.
             * @enum {string}
             */
            saasStatus: "ACTIVE" | "INACTIVE" | "SUSPENDED";
            /** @description Scopes of the key, '<area>:<read or write>'. */
            scopes: ("trading:read" | "trading:write" | "copy:read" | "copy:write" | "ai:read" | "ai:write" | "templates:read" | "templates:write" | "traders:read" | "traders:write" | "trades:read" | "trades:write" | "usage:read" | "usage:write" | "community:read" | "community:write" | "marketplace:read" | "marketplace:write" | "events:read" | "events:write" | "webhooks:read" | "webhooks:write" | "analytics:read" | "analytics:write" | "admin:read" | "admin:write")[];
            /** @description true with a test key: partner and traders are those of the test side. Left out with other keys. */
            test?: boolean;
            /** @description Traders known for this partner. */
            tradersCount: number;
        };
        /** PasswordChange */
        PasswordChange: {
            /** @description The password as it is. */
            currentPassword: string;
            /** @description At least 8 characters, and not a common one. */
            newPassword: string;
        };
        /** PasswordReset */
        PasswordReset: {
            /**
             * Format: date-time
             * @description When it ends by itself; ISO 8601, UTC.
             */
            expiresAt: string;
            /** @description For the trader alone; shown this once. */
            resetToken: string;
        };
        /** Payout */
        Payout: {
            /**
             * @description OK: the checksum of the address is right. FAILED: it is wrong, or the text is not an address of this form; check whether it was mistyped.
             * @enum {string}
             */
            addressCheck: "OK" | "FAILED";
            /** @description What is paid, USD. */
            amountUsd: number;
            /**
             * Format: date-time
             * @description When it was approved or rejected.
             */
            decidedAt: string | null;
            /** @description Where to pay: an address of exactly 34 characters. One whose checksum (base58check) is wrong is accepted, and marked. */
            destinationAddress: string;
            /**
             * Format: date-time
             * @description When it was paid.
             */
            paidAt: string | null;
            /** @description Identifier of the payout. */
            payoutId: string;
            /** @description Why it was rejected. */
            reason: string | null;
            /** @description Proof of payment. */
            reference: string | null;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            requestedAt: string;
            /**
             * @description REQUESTED: the amount is held. APPROVED: to be paid. PAID. REJECTED: the amount is available again.
             * @enum {string}
             */
            status: "REQUESTED" | "APPROVED" | "PAID" | "REJECTED";
            /** @description The trader who requested it; null when the partner did. */
            traderExternalId: string | null;
        };
        /** PayoutPage */
        PayoutPage: {
            /** @description The entries of this page. */
            data: components["schemas"]["Payout"][];
            /** @description Entries a page. */
            limit: number;
            /** @description This page. */
            page: number;
            /** @description Entries on all pages. */
            total: number;
        };
        /** PlanState */
        PlanState: {
            /**
             * Format: date-time
             * @description End of the period that is paid; the fee after it fell due then.
             */
            periodEnd: string;
            /**
             * @description Tier of the plan.
             * @enum {string}
             */
            plan: "LAUNCH" | "PRO" | "SCALE";
            /**
             * @description ACTIVE: the plan is paid. INACTIVE: its fee is unpaid. SUSPENDED: stopped by the operator.
             * @enum {string}
             */
            saasStatus: "ACTIVE" | "INACTIVE" | "SUSPENDED";
            /** @description What the wallet lacked of the fee; 0 while the plan is active. */
            topUpUsd: number;
        };
        /** Position */
        Position: {
            /** @description Broker symbol: a synthetic index or a forex pair. */
            asset: string;
            /** @description The broker's contract id. */
            brokerOrderId: string;
            /** @description What the contract cost in the account currency. */
            buyPrice: number;
            /**
             * @description For binary orders.
             * @enum {string}
             */
            contractType?: "CALL" | "PUT" | "DIGITMATCH" | "DIGITDIFF" | "DIGITOVER" | "DIGITUNDER" | "DIGITEVEN" | "DIGITODD";
            /** @description What a sale would bring at markedAt; null before the first mark. */
            currentValue: number | null;
            /**
             * @description For multiplier orders.
             * @enum {string}
             */
            direction?: "up" | "down";
            /** @description Units of the account's currency that one USD was worth at the broker right before the purchase; only with stakeInAccount. */
            exchangeRate?: number;
            /**
             * Format: date-time
             * @description End of the contract; null for tick and multiplier contracts.
             */
            expiresAt: string | null;
            /**
             * @description Kind of order.
             * @enum {string}
             */
            kind: "BINARY" | "MULTIPLIER";
            /**
             * Format: date-time
             * @description When the value was read from the broker.
             */
            markedAt: string | null;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            openedAt: string;
            /** @description Identifier of the order. */
            orderId: string;
            /** @description What was requested, in USD. */
            stake: number;
            /** @description The stake in the account's currency, rounded down to its decimals; only on accounts in another currency than USD. */
            stakeInAccount?: number;
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
            /** @description currentValue less buyPrice. */
            unrealizedPnl: number | null;
        };
        /** PositionList */
        PositionList: {
            /** @description The newest first. */
            data: components["schemas"]["Position"][];
        };
        /** Profile */
        Profile: {
            /**
             * Format: uri
             * @description Address of a picture (http or https), or null.
             */
            avatarUrl: string | null;
            /** @description null until it is set. */
            bio: string | null;
            /** @description Name shown to others; a default one until it is set: the partner's name, or Trader and four characters. */
            displayName: string;
            /** @description Whether the profile is on the leaderboard; of the partner's own, whether its leaders are global. */
            isPublic: boolean;
            /**
             * Format: date-time
             * @description null before the first change.
             */
            updatedAt: string | null;
        };
        /** ProfileUpdate */
        ProfileUpdate: {
            /**
             * Format: uri
             * @description Address of a picture (http or https), or null.
             */
            avatarUrl?: string | null;
            /** @description A few words about oneself. */
            bio?: string;
            /** @description Name shown to others; an empty one brings the default back. */
            displayName?: string;
            /** @description Whether the profile is on the leaderboard; of the partner's own, whether its leaders are global. */
            isPublic?: boolean;
        };
        /** Purchase */
        Purchase: {
            /** @description Identifier of the bot. */
            botId: string;
            /** @description Price in USD. */
            priceUsd: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            purchasedAt: string;
            /** @description Identifier of the purchase. */
            purchaseId: string;
            /**
             * Format: date-time
             * @description When it was paid back.
             */
            refundedAt: string | null;
            /**
             * @description COMPLETED: paid and owned. REFUNDED: paid back, no longer owned.
             * @enum {string}
             */
            status: "COMPLETED" | "REFUNDED";
        };
        /** PurchaseList */
        PurchaseList: {
            /** @description The entries, newest first. */
            data: components["schemas"]["Purchase"][];
            /** @description Pass as cursor for the next page; null on the last one. */
            nextCursor: string | null;
        };
        /** Reconciliation */
        Reconciliation: {
            /**
             * Format: date-time
             * @description When the day of the window that was compared longest ago was compared.
             */
            asOf: string;
            /** @description false while a day of the window is not over or not compared, the report of it is not final, a markup is unknown, or an order is in doubt. */
            complete: boolean;
            /** @description A row for each day, application and currency, oldest first; none for a day without contracts. */
            data: {
                /** @description The application's id at the broker. */
                application: string;
                /** @description Currency of the amounts; null where the account has none. */
                currency: string | null;
                /**
                 * Format: date
                 * @description The day, of UTC.
                 */
                day: string;
                /** @description Our markup less theirs. */
                difference: number | null;
                /** @description The broker's transaction ids of purchases that no order has, at most 100. The report has no contract ids. Empty where the broker reports sums only. */
                missingHere: string[];
                /** @description Order ids of contracts that the broker's report does not have, at most 100. Empty where the broker reports sums only. */
                missingThere: string[];
                /** @description By your orders. */
                ours: {
                    /** @description Contracts bought with a markup, or with one that is not known. */
                    contracts: number;
                    /** @description Sum of what is known. */
                    markup: number;
                    /** @description Those of them whose markup the broker did not report. */
                    markupUnknown: number;
                };
                /** @description null where the broker's report has no sum in this currency, or has sums only and another partner bought contracts with the same application on that day. */
                theirs: {
                    /** @description Contracts in the broker's report, without those that another partner bought with the same application. */
                    contracts: number;
                    /** @description Their markup. */
                    markup: number;
                } | null;
            }[];
            /**
             * Format: date-time
             * @description Start of the window, inclusive.
             */
            from: string;
            /**
             * @description Length of a bucket. Weeks begin on Monday. Default: "day".
             * @enum {string}
             */
            interval: "hour" | "day" | "week" | "month";
            /** @description UTC: by whose clocks the broker reports. */
            timezone: string;
            /**
             * Format: date-time
             * @description End of the window, exclusive.
             */
            to: string;
            /** @description The token that reads the report. */
            token: {
                /**
                 * @description When REJECTED: the broker does not take it, or it lacks the scope to read reports.
                 * @enum {string|null}
                 */
                reason: "TOKEN_REFUSED" | "SCOPE_MISSING" | null;
                /**
                 * @description NONE: none is stored for the present application. REJECTED: the broker refused it; store another one.
                 * @enum {string}
                 */
                status: "NONE" | "CONNECTED" | "REJECTED";
            };
        };
        /** Refund */
        Refund: {
            /** @description Why it is paid back; kept with the purchase and in the audit log. */
            reason: string;
        };
        /** RemovedReportToken */
        RemovedReportToken: {
            /**
             * @description Always true.
             * @enum {boolean}
             */
            removed: true;
        };
        /** Replay */
        Replay: {
            /** @description How many events will be sent again; fewer where the endpoint is disabled, or its types are changed, before they are. */
            events: number;
        };
        /** RequestEntry */
        RequestEntry: {
            /**
             * Format: date-time
             * @description When the request arrived; ISO 8601, UTC.
             */
            at: string;
            /** @description Code of the error; null when there was none. */
            error: string | null;
            /** @description The key of the request; null when a session authenticated it. */
            keyId: string | null;
            /** @description HTTP method. */
            method: string;
            /** @description Duration in milliseconds, waiting included. */
            ms: number;
            /** @description operationId of this description. */
            operation: string;
            /** @description Path without the query; identifiers that broke their schema are shown as the name of the parameter. */
            path: string;
            /** @description X-Request-Id of the response: the one that the caller sent, or a new one, a UUID of version 7. */
            requestId: string;
            /** @description HTTP status of the response. */
            status: number;
            /** @description The trader that the request named, or whose session came along; null without one. */
            traderExternalId: string | null;
        };
        /** RequestPage */
        RequestPage: {
            /** @description The newest first. */
            data: components["schemas"]["RequestEntry"][];
            /** @description Pass as cursor for the next page; null on the last one. */
            nextCursor: string | null;
        };
        /** ResetRequest */
        ResetRequest: {
            /** @description The e-mail address of the sign-up, in any case. */
            email: string;
        };
        /** Revenue */
        Revenue: {
            /**
             * Format: date-time
             * @description The instant that the response is of: what was committed by then is counted.
             */
            asOf: string;
            /** @description false while something of the window is still unknown: it is not over, a contract is open, a markup is unknown, or an order is in doubt; of activity also while an order that failed in the last hour may be repeated. A window without `to` is over. */
            complete: boolean;
            /** @description The rows, oldest bucket first. */
            data: {
                /** @description What the broker takes for multiplier contracts, as far as known. */
                commission: number;
                /** @description Contracts bought. */
                contracts: number;
                /** @description Currency of the amounts; null where the account has none. */
                currency: string | null;
                /** @description Only with `groupBy`: the asset, contract type, kind or mode. */
                group?: string;
                /** @description What your application earns by them, by the broker's own state of each contract. */
                markup: number;
                /** @description Contracts whose markup the broker has not reported (yet): not in `markup`. */
                markupUnknown: number;
                /** @description What they paid out so far; 0 while open. */
                payout: number;
                /** @description Stakes of these contracts. */
                stake: number;
                /**
                 * Format: date-time
                 * @description Start of the bucket, or `from` where that is later.
                 */
                start: string;
                /** @description Different traders who bought them. */
                traders: number;
                /** @description Profit or loss of the traders by those that are closed. */
                tradersPnl: number;
            }[];
            /**
             * Format: date-time
             * @description Start of the window, inclusive.
             */
            from: string;
            /**
             * @description Length of a bucket. Weeks begin on Monday. Default: "day".
             * @enum {string}
             */
            interval: "hour" | "day" | "week" | "month";
            /** @description By whose clocks buckets begin. */
            timezone: string;
            /**
             * Format: date-time
             * @description End of the window, exclusive.
             */
            to: string;
        };
        /** Review */
        Review: {
            /** @description Who wrote it. */
            author: {
                /** @description Name shown to others. */
                displayName: string;
            };
            /** @description Identifier of the bot. */
            botId: string;
            /** @description Words with it. */
            comment: string | null;
            /**
             * Format: date-time
             * @description When it was written, or last replaced.
             */
            createdAt: string;
            /** @description Whether it is the caller's own. */
            mine: boolean;
            /** @description From 1 to 5. */
            rating: number;
            /** @description Identifier of the review. */
            reviewId: string;
        };
        /** ReviewPage */
        ReviewPage: {
            /** @description The entries of this page. */
            data: components["schemas"]["Review"][];
            /** @description Entries a page. */
            limit: number;
            /** @description This page. */
            page: number;
            /** @description Entries on all pages. */
            total: number;
        };
        /** RevokedKey */
        RevokedKey: {
            /** @description Identifier of the key; not secret. */
            keyId: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            revokedAt: string;
        };
        /** RotatedSecret */
        RotatedSecret: {
            /**
             * Format: date-time
             * @description Until then requests are signed with both secrets; any library accepts either.
             */
            oldSecretUntil: string;
            /** @description With it you verify signatures. Shown this once only. */
            secret: string;
            /** @description Identifier of the endpoint. */
            webhookId: string;
        };
        /** Sale */
        Sale: {
            /** @description The price that was shown; another one is a 409 PRICE_CHANGED, and no money moves. */
            expectedPriceUsd?: number;
        };
        /** SessionsEnd */
        SessionsEnd: {
            /** @description Whose sessions; left out, those of the trader whose session comes with the request. */
            traderId?: string;
        };
        /** Signal */
        Signal: {
            /** @description Broker symbol: a synthetic index or a forex pair. */
            asset: string;
            backtest: components["schemas"]["Backtest"];
            /** @description Share of such contracts that must win, in percent, for the suggestion to lose nothing at the broker’s present price; null without a suggestion or a price. */
            breakEvenPct: number | null;
            /** @description How far the indicators agree, from 0 to 1; not a probability of winning. */
            confidence: number;
            /**
             * @description CALL: up. PUT: down. NEUTRAL: no clear direction.
             * @enum {string}
             */
            direction: "CALL" | "PUT" | "NEUTRAL";
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            generatedAt: string;
            indicators: components["schemas"]["Indicators"];
            /** @description Who worded the reasons: 'built-in', or the language model's name. The numbers are always built-in. */
            model: string;
            /** @description Why, in words. */
            rationale: string[];
            /** @description An order that fits the signal; null when it is NEUTRAL, when the balance cannot carry the minimum stake, where the broker has no exchange rate to the currency of the account, and on synthetic indices, whose prices have no memory. */
            suggestion: {
                /**
                 * @description Contract to buy.
                 * @enum {string}
                 */
                contractType: "CALL" | "PUT";
                /** @description Length in durationUnit. */
                duration: number;
                /**
                 * @description Unit of duration.
                 * @enum {string}
                 */
                durationUnit: "t" | "s" | "m" | "h" | "d";
                /** @description In USD: about one percent of the balance, the minimum stake where that is more, or when no balance is known. */
                stake: number;
            } | null;
            /**
             * Format: date-time
             * @description Request the next signal after this: by then a newer candle has closed.
             */
            validUntil: string;
        };
        /** SignalRequest */
        SignalRequest: {
            /** @description Broker symbol: a synthetic index or a forex pair. */
            asset: string;
            /** @description Balance in USD to size the stake with; overrides the trader's live balance. */
            balance?: number;
            /** @description The trader whose live balance sizes the stake, at the broker's exchange rate where it is not in USD. */
            traderExternalId?: string;
        };
        /** Signup */
        Signup: {
            /**
             * Format: email
             * @description E-mail address; compared without case.
             */
            email: string;
            /** @description The trader's name. */
            name?: string;
            /** @description At least 8 characters; stored as an argon2id hash only. */
            password: string;
        };
        /** Status */
        Status: {
            /** @description The processes that serve this API. */
            api: {
                /** @description How many run. */
                processes: number;
                /**
                 * @description OK; DEGRADED: it works for some or slowly; DOWN: it does not work.
                 * @enum {string}
                 */
                state: "OK" | "DEGRADED" | "DOWN";
            };
            /**
             * Format: date-time
             * @description When this was read; it is at most some seconds old.
             */
            at: string;
            /** @description Whether the workers reach the broker, as they report it. */
            broker: {
                /** @description Workers that reached it when they last tried. */
                reachedBy: number;
                /**
                 * @description OK; DEGRADED: it works for some or slowly; DOWN: it does not work.
                 * @enum {string}
                 */
                state: "OK" | "DEGRADED" | "DOWN";
                /** @description Workers that do not reach it now. */
                unreachedBy: number;
            };
            /** @description From the request to the broker's confirmation, over the orders of the last minutes. */
            latency: {
                /** @description Minutes looked back. */
                minutes: number;
                /** @description Orders that were counted, at most 5,000. */
                orders: number;
                /** @description Half of them took at most this long; null without orders. */
                p50Ms: number | null;
                /** @description 99 of 100 took at most this long; null without orders. */
                p99Ms: number | null;
            };
            /** @description What can be traded, as a worker last read it; null when none has read it within an hour. */
            markets: {
                /** @description Assets whose market is closed or suspended. */
                closed: number;
                /** @description Assets whose market is open. */
                open: number;
                /** @description How long ago that was seen. */
                seconds: number;
                /**
                 * @description OK; DEGRADED: it works for some or slowly; DOWN: it does not work.
                 * @enum {string}
                 */
                state: "OK" | "DEGRADED" | "DOWN";
            } | null;
            /** @description Work on its way from the api to the workers. */
            queue: {
                /** @description How long the oldest has waited; null when nothing waits. */
                oldestSeconds: number | null;
                /**
                 * @description OK; DEGRADED: it works for some or slowly; DOWN: it does not work.
                 * @enum {string}
                 */
                state: "OK" | "DEGRADED" | "DOWN";
                /** @description How much waits to be taken. */
                waiting: number;
            };
            /**
             * @description The worst of the parts that placing an order needs.
             * @enum {string}
             */
            state: "OK" | "DEGRADED" | "DOWN";
            /** @description Whether the operator has halted placing for everybody (code `TRADING_HALTED`). */
            trading: {
                /** @description true: no order is placed; closing goes on. */
                halted: boolean;
                /**
                 * @description OK; DEGRADED: it works for some or slowly; DOWN: it does not work.
                 * @enum {string}
                 */
                state: "OK" | "DEGRADED" | "DOWN";
            };
            /** @description The processes that place and settle orders. */
            workers: {
                /** @description How many run. */
                processes: number;
                /**
                 * @description OK; DEGRADED: it works for some or slowly; DOWN: it does not work.
                 * @enum {string}
                 */
                state: "OK" | "DEGRADED" | "DOWN";
            };
        };
        /** StoredReportToken */
        StoredReportToken: {
            /** @description The application's id at the broker. */
            application: string;
            /**
             * @description When REJECTED: the broker does not take it, or it lacks the scope to read reports.
             * @enum {string|null}
             */
            reason: "TOKEN_REFUSED" | "SCOPE_MISSING" | null;
            /**
             * @description NONE: none is stored for the present application. REJECTED: the broker refused it; store another one.
             * @enum {string}
             */
            status: "NONE" | "CONNECTED" | "REJECTED";
            /**
             * Format: date-time
             * @description When it was stored.
             */
            storedAt: string;
        };
        /** Strategy */
        Strategy: {
            /** @description How far the indicators agree, from 0 to 1; not a probability of winning. */
            confidence: number;
            /**
             * @description CALL: up. PUT: down. NEUTRAL: no clear direction.
             * @enum {string}
             */
            direction: "CALL" | "PUT" | "NEUTRAL";
            /** @description Name of the strategy. */
            name: string;
            /** @description Why, in words. */
            why: string;
        };
        /** StreamTicket */
        StreamTicket: {
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            expiresAt: string;
            /** @description Opens one socket, once: Sec-WebSocket-Protocol: service.v1, ticket.<ticket> */
            ticket: string;
        };
        /** Subscription */
        Subscription: {
            /** @description Identifier of the bot. */
            botId: string;
            /** @description Ends with its period: it was canceled, or the bot was retired. */
            cancelAtPeriodEnd: boolean;
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description Until when it is paid.
             */
            currentPeriodEnd: string;
            /** @description Price of a month in USD, as it was when subscribing. */
            priceUsd: number;
            /**
             * Format: date-time
             * @description When its last month was paid back.
             */
            refundedAt: string | null;
            /**
             * @description ACTIVE: paid. PAST_DUE: the month is over and the next was not paid: the wallet is empty, or the partner INACTIVE or SUSPENDED; still usable, for three days. CANCELED: over.
             * @enum {string}
             */
            status: "ACTIVE" | "PAST_DUE" | "CANCELED";
            /** @description Identifier of the subscription. */
            subscriptionId: string;
        };
        /** SubscriptionList */
        SubscriptionList: {
            /** @description The entries, newest first. */
            data: components["schemas"]["Subscription"][];
            /** @description Pass as cursor for the next page; null on the last one. */
            nextCursor: string | null;
        };
        /** Template */
        Template: {
            /** @description What it looks like. */
            description: string;
            /** @description Name of the template. */
            name: string;
            /** @description The colour a site gets when none is given. */
            previewColor: string;
            /** @description Name of the template in addresses. */
            slug: string;
            /** @description The template's version. */
            version: string;
        };
        /** TemplateList */
        TemplateList: {
            /** @description Every template there is. */
            data: components["schemas"]["Template"][];
        };
        /** TradeEntry */
        TradeEntry: {
            /** @description The broker's contract id; a contract is recorded once. */
            broker_contract_id: string;
            /** @description The broker's account the contract belongs to. */
            client_broker_loginid: string;
            /**
             * Format: date-time
             * @description When the record was first collected; ISO 8601, UTC.
             */
            collectedAt: string;
            /** @description Kind of contract, in the words of the broker. */
            contract_type: string;
            /** @description Account currency. */
            currency: string | null;
            /** @description Whatever else is to be kept with the record. At most 16 KiB of JSON, nested 20 deep at most. */
            metadata: {
                [key: string]: unknown;
            } | null;
            /** @description What was paid out. */
            payout_amount: number | null;
            /** @description What was won (above zero) or lost. */
            profit_loss: number;
            /** @description What was staked, in the account currency. */
            stake_amount: number;
            /** @description Broker symbol. */
            symbol: string | null;
            /** @description When it was traded: an ISO 8601 date or date and time (UTC where no zone is given), or an epoch in seconds or milliseconds; from 2000 to a day from now. Kept as given. */
            trade_timestamp: string;
            /** @description Identifier of the record. */
            tradeId: string;
            /** @description The partner's own id of the trader. */
            trader_external_id: string | null;
        };
        /** TradeList */
        TradeList: {
            /** @description The newest trade first. */
            data: components["schemas"]["TradeEntry"][];
        };
        /** TraderAccount */
        TraderAccount: {
            /** @description Broker accounts, as GET /v1/accounts shows them; empty before the exchange. */
            accounts: components["schemas"]["Account"][];
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description As it was given at sign-up. */
            email: string;
            /**
             * Format: date-time
             * @description When the session ends by itself; ISO 8601, UTC.
             */
            expiresAt: string;
            /** @description null when none was given. */
            name: string | null;
            /** @description What the trader is called in all other calls; for a sign-up its traderId, ready for the exchange. */
            traderExternalId: string;
            /** @description Identifier of the trader. */
            traderId: string;
        };
        /** TraderAnalytics */
        TraderAnalytics: {
            /**
             * Format: date-time
             * @description The instant that the response is of: what was committed by then is counted.
             */
            asOf: string;
            /** @description false while something of the window is still unknown: it is not over, a contract is open, a markup is unknown, or an order is in doubt; of activity also while an order that failed in the last hour may be repeated. A window without `to` is over. */
            complete: boolean;
            /** @description A row for each currency. */
            data: {
                /** @description Those that are copies. */
                copied: number;
                /** @description Currency of the amounts; null where the account has none. */
                currency: string | null;
                /**
                 * Format: date-time
                 * @description First close in the window.
                 */
                firstTradeAt: string;
                /**
                 * Format: date-time
                 * @description Last close in the window.
                 */
                lastTradeAt: string;
                /** @description What your application earns by them, by the broker's own state of each contract. */
                markup: number;
                /** @description Contracts whose markup the broker has not reported (yet): not in `markup`. */
                markupUnknown: number;
                /** @description What they paid out. */
                payout: number;
                /** @description Profit or loss. */
                pnl: number;
                /** @description Stakes of these contracts. */
                stake: number;
                /** @description The partner's own stable user id of the trader. */
                traderExternalId: string;
                /** @description Contracts closed. */
                trades: number;
                /** @description Share of those with a profit, in percent. */
                winRatePct: number;
                /** @description Those with a profit. */
                won: number;
            }[];
            /**
             * Format: date-time
             * @description Start of the window, inclusive.
             */
            from: string;
            /**
             * @description Length of a bucket. Weeks begin on Monday. Default: "day".
             * @enum {string}
             */
            interval: "hour" | "day" | "week" | "month";
            /** @description The same by bucket and currency, oldest bucket first; buckets without a close are left out. */
            series: {
                /** @description Those that are copies. */
                copied: number;
                /** @description Currency of the amounts; null where the account has none. */
                currency: string | null;
                /** @description What your application earns by them, by the broker's own state of each contract. */
                markup: number;
                /** @description Contracts whose markup the broker has not reported (yet): not in `markup`. */
                markupUnknown: number;
                /** @description What they paid out. */
                payout: number;
                /** @description Profit or loss. */
                pnl: number;
                /** @description Stakes of these contracts. */
                stake: number;
                /**
                 * Format: date-time
                 * @description Start of the bucket, or `from` where that is later.
                 */
                start: string;
                /** @description Contracts closed. */
                trades: number;
                /** @description Share of those with a profit, in percent. */
                winRatePct: number;
                /** @description Those with a profit. */
                won: number;
            }[];
            /** @description By whose clocks buckets begin. */
            timezone: string;
            /**
             * Format: date-time
             * @description End of the window, exclusive.
             */
            to: string;
        };
        /** TradeRecord */
        TradeRecord: {
            /** @description The broker's contract id; a contract is recorded once. */
            broker_contract_id: string;
            /** @description The broker's account the contract belongs to. */
            client_broker_loginid: string;
            /** @description Kind of contract, in the words of the broker. */
            contract_type: string;
            /** @description Account currency. */
            currency?: string;
            /** @description Whatever else is to be kept with the record. At most 16 KiB of JSON, nested 20 deep at most. */
            metadata?: {
                [key: string]: unknown;
            };
            /** @description What was paid out. */
            payout_amount?: number;
            /** @description What was won (above zero) or lost. */
            profit_loss: number;
            /** @description What was staked, in the account currency. */
            stake_amount: number;
            /** @description Broker symbol. */
            symbol?: string;
            /** @description When it was traded: an ISO 8601 date or date and time (UTC where no zone is given), or an epoch in seconds or milliseconds; from 2000 to a day from now. Kept as given. */
            trade_timestamp: string;
            /** @description The partner's own id of the trader. */
            trader_external_id?: string;
        };
        /** TraderLogin */
        TraderLogin: {
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description As it was given at sign-up. */
            email: string;
            /**
             * Format: date-time
             * @description When the session ends by itself; ISO 8601, UTC.
             */
            expiresAt: string;
            /** @description null when none was given. */
            name: string | null;
            /** @description Send it as X-Trader-Session in addition to the key; the cookie trader_session carries it too. */
            sessionToken: string;
            /** @description What the trader is called in all other calls; for a sign-up its traderId, ready for the exchange. */
            traderExternalId: string;
            /** @description Identifier of the trader. */
            traderId: string;
        };
        /** Traders */
        Traders: {
            /**
             * Format: date-time
             * @description The instant that the response is of: what was committed by then is counted.
             */
            asOf: string;
            /** @description false while something of the window is still unknown: it is not over, a contract is open, a markup is unknown, or an order is in doubt; of activity also while an order that failed in the last hour may be repeated. A window without `to` is over. */
            complete: boolean;
            /** @description A row for each trader, the largest by `sort` first. */
            data: {
                /** @description Those that are copies. */
                copied: number;
                /** @description Currency of the amounts; null where the account has none. */
                currency: string | null;
                /**
                 * Format: date-time
                 * @description First close in the window.
                 */
                firstTradeAt: string;
                /**
                 * Format: date-time
                 * @description Last close in the window.
                 */
                lastTradeAt: string;
                /** @description What your application earns by them, by the broker's own state of each contract. */
                markup: number;
                /** @description Contracts whose markup the broker has not reported (yet): not in `markup`. */
                markupUnknown: number;
                /** @description What they paid out. */
                payout: number;
                /** @description Profit or loss. */
                pnl: number;
                /** @description Stakes of these contracts. */
                stake: number;
                /** @description The partner's own stable user id of the trader. */
                traderExternalId: string;
                /** @description Contracts closed. */
                trades: number;
                /** @description Share of those with a profit, in percent. */
                winRatePct: number;
                /** @description Those with a profit. */
                won: number;
            }[];
            /**
             * Format: date-time
             * @description Start of the window, inclusive.
             */
            from: string;
            /**
             * @description Length of a bucket. Weeks begin on Monday. Default: "day".
             * @enum {string}
             */
            interval: "hour" | "day" | "week" | "month";
            /** @description Pass as cursor for the next page; null on the last one. */
            nextCursor: string | null;
            /** @description By whose clocks buckets begin. */
            timezone: string;
            /**
             * Format: date-time
             * @description End of the window, exclusive.
             */
            to: string;
        };
        /** UnfollowRequest */
        UnfollowRequest: {
            /** @description Identifier of the leader. */
            leaderId: string;
            /** @description The partner's own stable user id of the trader. */
            traderExternalId: string;
        };
        /** Usage */
        Usage: {
            /** @description Orders accepted in the period, as they are now. */
            orders: {
                /** @description Those that are CLOSED. */
                closed: number;
                /** @description Those that FAILED. */
                failed: number;
                /** @description All of them. */
                placed: number;
            };
            /**
             * Format: date-time
             * @description When it ends and the next fee falls due; ISO 8601, UTC.
             */
            periodEnd: string;
            /**
             * Format: date-time
             * @description When the billing period began; ISO 8601, UTC.
             */
            periodStart: string;
            /**
             * @description Tier of the plan.
             * @enum {string}
             */
            plan: "LAUNCH" | "PRO" | "SCALE";
            /** @description Limits that apply. */
            rateLimit: {
                /** @description Calls a minute of one key. */
                perKeyPerMinute: number;
                /** @description Calls a minute that name one trader. */
                perTraderPerMinute: number;
            };
            /** @description Requests with a key or session of the partner since the hour in which the period began. */
            requests: {
                /** @description The days with requests, oldest first. */
                byDay: {
                    /**
                     * Format: date
                     * @description Day in UTC.
                     */
                    date: string;
                    /** @description Errors of the day. */
                    errors: number;
                    /** @description Requests of the day. */
                    requests: number;
                }[];
                /** @description Those whose response has a status of 400 or above. */
                errors: number;
                /** @description All requests. */
                total: number;
            };
            /**
             * @description ACTIVE: the plan is paid. INACTIVE: its fee is unpaid. SUSPENDED: stopped by the operator.
             * @enum {string}
             */
            saasStatus: "ACTIVE" | "INACTIVE" | "SUSPENDED";
            /** @description Traders known for the partner. */
            traders: number;
            /** @description The partner's wallet and its next fee. */
            wallet: {
                /** @description Balance of the wallet in USD. */
                balanceUsd: number;
                /** @description What the next fee will be in USD. */
                feeUsd: number;
                /**
                 * Format: date-time
                 * @description When it falls due; ISO 8601, UTC.
                 */
                nextFeeAt: string;
            };
        };
        /**
         * Webhook
         * @description A webhook endpoint, without its secret.
         */
        Webhook: {
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description null when none was given. */
            description: string | null;
            /**
             * @description Only while DISABLED. PARTNER and OPERATOR: who did it; GONE: the endpoint returned 410; FAILURES: it only failed for five days.
             * @enum {string|null}
             */
            disabledReason: "PARTNER" | "OPERATOR" | "GONE" | "FAILURES" | null;
            /**
             * Format: date-time
             * @description When the first of the attempts failed that have failed since the last success; null after a success.
             */
            failingSince: string | null;
            /**
             * @description Why the last attempt failed; null after a success.
             * @enum {string|null}
             */
            lastError: "HTTP_STATUS" | "REDIRECT" | "GONE" | "TIMEOUT" | "CONNECTION_FAILED" | "TLS_FAILED" | "ADDRESS_NOT_ALLOWED" | "INVALID_EVENT" | "EXPIRED" | "SECRET_UNREADABLE" | null;
            /** @description Events that could not be delivered before the log dropped them. Compare your records when it grows. */
            missedEvents: number;
            /**
             * @description FAILING: the last five attempts failed; one event at a time is tried until one is delivered. DISABLED: nothing is sent.
             * @enum {string}
             */
            status: "ENABLED" | "FAILING" | "DISABLED";
            /** @description Types of the events that are sent; null: all, those of later versions included. */
            types: string[] | null;
            /**
             * Format: uri
             * @description Where events are sent: https, without user information and fragment. The name must resolve to public addresses; that is checked at each connection.
             */
            url: string;
            /** @description Identifier of the endpoint. */
            webhookId: string;
        };
        /** WebhookChange */
        WebhookChange: {
            /** @description null takes it away. */
            description?: string | null;
            /** @description With status ENABLED: leave out everything up to now, waiting retries and replays included. */
            skip?: boolean;
            /**
             * @description DISABLED: nothing is sent. ENABLED: goes on where it stopped, with all that happened in between.
             * @enum {string}
             */
            status?: "ENABLED" | "DISABLED";
            /** @description Only events of these types from now on; null: all. */
            types?: ("order.opened" | "order.closed" | "order.failed" | "order.review" | "account.connected" | "account.rejected" | "follow.paused" | "payout.approved" | "payout.paid" | "payout.rejected" | "plan.inactive" | "plan.active" | "bot.purchased" | "bot.refunded" | "subscription.past_due" | "key.created" | "key.revoked" | "deployment.live" | "deployment.failed" | "webhook.disabled")[] | null;
            /**
             * Format: uri
             * @description Where events are sent: https, without user information and fragment. The name must resolve to public addresses; that is checked at each connection.
             */
            url?: string;
        };
        /** WebhookList */
        WebhookList: {
            /** @description The newest first. */
            data: components["schemas"]["Webhook"][];
        };
        /** WebhookTest */
        WebhookTest: {
            /** @description Identifier of the attempt. */
            deliveryId: string;
            /**
             * @description Why it failed. HTTP_STATUS: the response was no 2xx; REDIRECT: the response was a redirect, which is not followed; GONE: the response was 410, which disables the endpoint; TIMEOUT: no response within 15 s; CONNECTION_FAILED: the connection was refused, reset or closed before the response; TLS_FAILED: the certificate or the TLS handshake was not accepted; ADDRESS_NOT_ALLOWED: the name does not resolve to public addresses alone; INVALID_EVENT: the event cannot be shown; it is not tried again; EXPIRED: the event is not kept any more; it is not tried again; SECRET_UNREADABLE: the secret cannot be decrypted: rotate it.
             * @enum {string|null}
             */
            error: "HTTP_STATUS" | "REDIRECT" | "GONE" | "TIMEOUT" | "CONNECTION_FAILED" | "TLS_FAILED" | "ADDRESS_NOT_ALLOWED" | "INVALID_EVENT" | "EXPIRED" | "SECRET_UNREADABLE" | null;
            /** @description Status of the response; null without one. */
            httpStatus: number | null;
            /** @description How long the attempt took, ms; null where nothing was sent. */
            ms: number | null;
            /** @description The beginning of the response, at most 1 KiB, as text. Never show it as HTML. */
            response: string | null;
        };
        /** WebhookTestEvent */
        WebhookTestEvent: {
            /**
             * Format: date-time
             * @description ISO 8601, UTC.
             */
            createdAt: string;
            /** @description Which endpoint is tested. */
            data: {
                /** @description Identifier of the endpoint. */
                webhookId: string;
            };
            /** @description Identifier of the event, the same wherever it is read. */
            id: string;
            /** @description A test is about no trader. */
            traderExternalId: null;
            /**
             * @description Constant: it is a test.
             * @constant
             */
            type: "webhook.test";
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
