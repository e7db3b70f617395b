package indextables.spark;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.execution.datasources.v2.python.*;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table whose scans share no data source: the needed columns and the filters become options of the scan's own source.
 * Spark still evaluates all filters itself. A scan returns every column whole, with all fields of its structs, because
 * Spark finds the fields by the schema that the scan reports.
 */
public final class PrivateScan extends PythonTable {
    final Opened opened;
    final Asked asked;
    private final boolean isShared;
    private String note;

    private PrivateScan(PythonDataSourceV2 source, StructType schema, Opened opened, Asked asked, boolean isShared) {
        super(source, opened.format, schema);
        this.opened = opened;
        this.asked = asked;
        this.isShared = isShared;
        this.note = opened.format + " " + opened.title;
    }

    /** The table of a frame; a query may scan it more than once. */
    static PrivateScan shared(StructType schema, Opened opened) {
        return new PrivateScan(newSource(opened.format), schema, opened, new Asked(), true);
    }

    /** The table of one scan in a query. */
    static PrivateScan of(StructType schema, Opened opened, Asked asked) {
        return new PrivateScan(newSource(opened.format), schema, opened, asked, false);
    }

    private static PythonDataSourceV2 newSource(String format) {
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName(format);
        return source;
    }

    /** A copy for one scan, which reports its own columns and options. */
    PrivateScan apart() {
        return of(schema(), opened, asked);
    }

    boolean isShared() {
        return isShared;
    }

    public String name() {
        return note;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new Builder(this);
    }

    /** An opened load: its options with a fixed version, and the callbacks of the driver's Python. */
    public static final class Opened {
        final String format;
        final String title;
        final Map options;
        final Function plan;
        final Function push;
        final Function aggregate;
        private final Function scan;
        private final Function describe;
        private Map fields;
        private NativeScan nativeScan;
        private boolean isScanKnown;

        /**
         * `plan` takes the columns and options of a scan as JSON. It returns the length of a note, the note, and rows in
         * Arrow's stream format if it found all of them. `push` takes searches as JSON, and returns those that the scans
         * decide; the rows decide the others. `aggregate` takes an aggregation as JSON, and returns its rows in Arrow's
         * stream format, or nothing if Spark has to aggregate. `scan` returns the native scan, or an empty list if there is none.
         * `describe` describes the indexing of columns.
         */
        public Opened(
            String format, String title, Map options, Function plan, Function push, Function aggregate, Function scan,
            Function describe) {
            this.format = format;
            this.title = title;
            this.options = options;
            this.plan = plan;
            this.push = push;
            this.aggregate = aggregate;
            this.scan = scan;
            this.describe = describe;
        }

        /** The indexing of columns, by name. */
        synchronized Map fields() {
            if (fields == null) fields = Texts.map(Texts.checked(describe.apply(format)));
            return fields;
        }

        /** Spark's own scan of the table, created on first use; null if Python must serve it. */
        synchronized NativeScan nativeScan() {
            if (!isScanKnown) {
                Object found = Texts.checked(scan.apply(format));
                nativeScan = found instanceof NativeScan ? ((NativeScan) found).openedBy(this) : null;
                isScanKnown = true;
            }
            return nativeScan;
        }
    }

    /** Requests of a query to a scan beyond the options of its load. */
    static final class Asked {
        final List searches;
        final boolean score;
        final String snippet;
        /** A predicate that every row must match; null if there is none. */
        final String where;
        /** The most rows to find; -1 for all. */
        final int limit;

        Asked() {
            this(new ArrayList(), false, null, null, -1);
        }

        private Asked(List searches, boolean score, String snippet, String where, int limit) {
            this.searches = searches;
            this.score = score;
            this.snippet = snippet;
            this.where = where;
            this.limit = limit;
        }

        Asked searching(List more) {
            List all = new ArrayList(searches);
            all.addAll(more);
            return new Asked(all, score, snippet, where, limit);
        }

        Asked scoring() {
            return new Asked(searches, true, snippet, where, limit);
        }

        Asked showing(String column) {
            return new Asked(searches, score, column, where, limit);
        }

        Asked filtering(String predicate) {
            return new Asked(searches, score, snippet, predicate, limit);
        }

        Asked limiting(int numRows) {
            return new Asked(searches, score, snippet, where, numRows);
        }

        /** The requests as options of a load. */
        Map options() {
            Map options = new HashMap();
            if (!searches.isEmpty()) options.put("searches", Texts.json(searches));
            if (score) options.put("score", "true");
            if (snippet != null) options.put("snippet", snippet);
            if (where != null) options.put("where", where);
            if (limit >= 0) options.put("limit", String.valueOf(limit));
            return options;
        }
    }

    private static final class Builder implements SupportsPushDownFilters, SupportsPushDownRequiredColumns {
        private final PrivateScan table;
        private StructType needed;
        private final List hints = new ArrayList();

        Builder(PrivateScan table) {
            this.table = table;
            this.needed = table.schema();
        }

        /** A limit applies before all filters, so they must not exclude splits then. */
        public Filter[] pushFilters(Filter[] filters) {
            if (table.opened.options.containsKey("limit") || table.asked.limit >= 0) return filters;
            for (int i = 0; i < filters.length; i++) {
                String hint = FilterText.of(filters[i]);
                if (hint != null) hints.add(hint);
            }
            return filters;
        }

        public Filter[] pushedFilters() {
            return new Filter[0];
        }

        /** Spark may request only some fields of a struct. A scan without columns could not count its rows. */
        public void pruneColumns(StructType required) {
            StructType all = table.schema();
            StructField[] whole = new StructField[Math.max(required.length(), 1)];
            whole[0] = all.fields()[0];
            for (int i = 0; i < required.length(); i++) whole[i] = all.apply(required.fields()[i].name());
            needed = new StructType(whole);
        }

        public Scan build() {
            Map more = table.asked.options();
            if (!hints.isEmpty()) more.put("hints", Texts.json(hints));
            Map wanted = new HashMap();
            wanted.put("schema", needed.json());
            wanted.put("options", more);
            byte[] answer = (byte[]) Texts.checked(table.opened.plan.apply(Texts.json(wanted)));
            int end = ByteBuffer.wrap(answer).getInt() + 4;
            table.note = table.opened.format + " " + table.opened.title
                + new String(answer, 4, end - 4, StandardCharsets.UTF_8);
            if (answer.length > end) {
                return new FoundRows(table.note, Rows.of(Arrays.copyOfRange(answer, end, answer.length)), needed);
            }
            more.putAll(table.opened.options);
            return new Distributed(table.opened.format, needed, new CaseInsensitiveStringMap(more));
        }
    }

    /** A scan by Python workers, with its own data source. */
    private static final class Distributed implements Scan {
        private final PythonScan scan;

        Distributed(String format, StructType schema, CaseInsensitiveStringMap options) {
            this.scan = Relations.scan(newSource(format), format, schema, options);
        }

        public StructType readSchema() {
            return scan.readSchema();
        }

        public String description() {
            return scan.description();
        }

        public Batch toBatch() {
            return scan.toBatch();
        }

        public org.apache.spark.sql.connector.metric.CustomMetric[] supportedCustomMetrics() {
            return scan.supportedCustomMetrics();
        }

        public Scan.ColumnarSupportMode columnarSupportMode() {
            return scan.columnarSupportMode();
        }
    }
}
