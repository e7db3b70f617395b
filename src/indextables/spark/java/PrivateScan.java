package indextables.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.execution.datasources.v2.python.*;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table whose every scan is its own: the columns that are needed and what filters say become options of a data source
 * that no other scan shares. Spark goes on to evaluate all filters itself.
 */
public final class PrivateScan extends PythonTable {
    private final Opened opened;
    private final boolean isShared;
    private String note;

    private PrivateScan(PythonDataSourceV2 source, StructType schema, Opened opened, boolean isShared) {
        super(source, opened.format, schema);
        this.opened = opened;
        this.isShared = isShared;
        this.note = opened.format + " " + opened.title;
    }

    /** The table of a frame, which a query may scan more than once. */
    static PrivateScan shared(StructType schema, Opened opened) {
        return new PrivateScan(newSource(opened.format), schema, opened, true);
    }

    /** The table of one scan in a query. */
    static PrivateScan of(StructType schema, Opened opened) {
        return new PrivateScan(newSource(opened.format), schema, opened, false);
    }

    private static PythonDataSourceV2 newSource(String format) {
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName(format);
        return source;
    }

    /** The same for one scan alone, which says of itself what it reads. */
    PrivateScan apart() {
        return of(schema(), opened);
    }

    boolean isShared() {
        return isShared;
    }

    public String name() {
        return note;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new Builder(this, options);
    }

    /** What the driver's Python says of a load: the options that pin its version, and how to search on the driver. */
    public static final class Opened {
        final String format;
        final String title;
        final Map pinned;
        final BiFunction search;

        /**
         * `search` takes columns, and predicates that may rule splits out, both as JSON. It gives a note, and rows where
         * it found all of them.
         */
        public Opened(String format, String title, Map pinned, BiFunction search) {
            this.format = format;
            this.title = title;
            this.pinned = pinned;
            this.search = search;
        }
    }

    private static final class Builder implements SupportsPushDownFilters, SupportsPushDownRequiredColumns {
        private final PrivateScan table;
        private final CaseInsensitiveStringMap options;
        private StructType needed;
        private final List hints = new ArrayList();

        Builder(PrivateScan table, CaseInsensitiveStringMap options) {
            this.table = table;
            this.options = options;
            this.needed = table.schema();
        }

        /** A limit of the load comes before all filters, so that they may not rule splits out. */
        public Filter[] pushFilters(Filter[] filters) {
            if (options.containsKey("limit")) return filters;
            for (int i = 0; i < filters.length; i++) {
                String hint = FilterText.of(filters[i]);
                if (hint != null) hints.add(hint);
            }
            return filters;
        }

        public Filter[] pushedFilters() {
            return new Filter[0];
        }

        /** A scan without columns could not say how many rows it has. */
        public void pruneColumns(StructType required) {
            needed = required.length() > 0 ? required : new StructType(new StructField[] {table.schema().fields()[0]});
        }

        public Scan build() {
            Object asked = table.opened.search.apply(Texts.json(needed.fieldNames()), Texts.json(hints));
            List answer = (List) Texts.checked(asked);
            table.note = table.opened.format + " " + table.opened.title + (String) answer.get(0);
            if (answer.size() > 1) return new FoundRows(Rows.of((byte[]) answer.get(1)), needed);
            return new Distributed(table.opened.format, needed, options());
        }

        private CaseInsensitiveStringMap options() {
            Map all = new HashMap(options.asCaseSensitiveMap());
            Object[] keys = all.keySet().toArray();
            for (int i = 0; i < keys.length; i++) {
                if (table.opened.pinned.containsKey(keys[i].toString().toLowerCase())) all.remove(keys[i]);
            }
            Object[] pinned = table.opened.pinned.keySet().toArray();
            for (int i = 0; i < pinned.length; i++) {
                Object value = table.opened.pinned.get(pinned[i]);
                if (value != null) all.put(pinned[i], value);
            }
            if (!hints.isEmpty()) all.put("hints", Texts.json(hints));
            return new CaseInsensitiveStringMap(all);
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

    /** Rows that the driver found by itself. */
    private static final class FoundRows implements LocalScan {
        private final List rows;
        private final StructType schema;

        FoundRows(List rows, StructType schema) {
            this.rows = rows;
            this.schema = schema;
        }

        public StructType readSchema() {
            return schema;
        }

        public String description() {
            return "(found on the driver)";
        }

        public InternalRow[] rows() {
            return (InternalRow[]) rows.toArray(new InternalRow[0]);
        }
    }
}
