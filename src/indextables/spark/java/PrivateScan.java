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
 * A table whose every scan is its own: the columns that are needed and what filters say become options of a data source
 * that no other scan shares. Spark goes on to evaluate all filters itself. A scan gives every column whole, with all
 * the fields of its structs: Spark finds them by the schema that the scan says it reads.
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

    /** The table of a frame, which a query may scan more than once. */
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

    /** The same for one scan alone, which says of itself what it reads. */
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

    /** What the driver's Python says of a load: its options, with the version settled, and whom to ask. */
    public static final class Opened {
        final String format;
        final String title;
        final Map options;
        final Function plan;
        final Function push;
        private final Function scan;
        private final Function describe;
        private Map fields;
        private NativeScan nativeScan;
        private boolean isScanKnown;

        /**
         * `plan` takes what a scan is to give, as JSON, and gives the length of a note, the note, and rows as Arrow's
         * stream format where it found all of them. `push`
         * takes searches as JSON, and gives those that its scans take; none where rows have to decide. `scan` gives the
         * native scan, or an empty list where there is none. `describe` tells how columns are indexed.
         */
        public Opened(
            String format, String title, Map options, Function plan, Function push, Function scan, Function describe) {
            this.format = format;
            this.title = title;
            this.options = options;
            this.plan = plan;
            this.push = push;
            this.scan = scan;
            this.describe = describe;
        }

        /** How columns are indexed, by their names. */
        synchronized Map fields() {
            if (fields == null) fields = Texts.map(Texts.checked(describe.apply(format)));
            return fields;
        }

        /** Spark's own scan of the table, or null where Python has to serve it. It is made when it is first asked for. */
        synchronized NativeScan nativeScan() {
            if (!isScanKnown) {
                Object found = Texts.checked(scan.apply(format));
                nativeScan = found instanceof NativeScan ? ((NativeScan) found).openedBy(this) : null;
                isScanKnown = true;
            }
            return nativeScan;
        }
    }

    /** What a query asks of a scan beyond the options of its load. */
    static final class Asked {
        final List searches;
        final boolean score;
        final String snippet;

        Asked() {
            this(new ArrayList(), false, null);
        }

        private Asked(List searches, boolean score, String snippet) {
            this.searches = searches;
            this.score = score;
            this.snippet = snippet;
        }

        Asked searching(List more) {
            List all = new ArrayList(searches);
            all.addAll(more);
            return new Asked(all, score, snippet);
        }

        Asked scoring() {
            return new Asked(searches, true, snippet);
        }

        Asked showing(String column) {
            return new Asked(searches, score, column);
        }

        /** As options of a load. */
        Map options() {
            Map options = new HashMap();
            if (!searches.isEmpty()) options.put("searches", Texts.json(searches));
            if (score) options.put("score", "true");
            if (snippet != null) options.put("snippet", snippet);
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

        /** A limit of the load comes before all filters, so that they may not rule splits out. */
        public Filter[] pushFilters(Filter[] filters) {
            if (table.opened.options.containsKey("limit")) return filters;
            for (int i = 0; i < filters.length; i++) {
                String hint = FilterText.of(filters[i]);
                if (hint != null) hints.add(hint);
            }
            return filters;
        }

        public Filter[] pushedFilters() {
            return new Filter[0];
        }

        /** Spark may ask for some fields of a struct alone. A scan without columns could not count its rows. */
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

    /** A scan by Python workers, with a data source of its own. */
    private static final class Distributed implements Scan {
        private final PythonScan scan;

        Distributed(String format, StructType schema, CaseInsensitiveStringMap options) {
            this.scan = new PythonScan(newSource(format), format, schema, options, new Filter[0]);
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
